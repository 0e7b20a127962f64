#ifndef PREHEAT_TESTS_EMULATOR_EMULATOR_H_
#define PREHEAT_TESTS_EMULATOR_EMULATOR_H_

#include <cstdint>
#include <functional>

// What the parts of the emulator share.

// Does the work now, or adds it to the graph that the stream is captured into. 0: all went well.
int Do(void* stream, std::function<int()> work);

// Elements of floating types, numbered as cudaDataType does: 0 float32, 1 float64, 2 float16, 14 bfloat16.
double Load(const void* base, int64_t at, int type);
void Store(void* base, int64_t at, int type, double value);

#endif  // PREHEAT_TESTS_EMULATOR_EMULATOR_H_
