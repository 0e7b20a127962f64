#ifndef PREHEAT_CLIENT_COMPILECTL_MODEL_INPUTS_H_
#define PREHEAT_CLIENT_COMPILECTL_MODEL_INPUTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/compilectl/model.h"
#include "compiler/capture/aten_program.h"
#include "compiler/reference/inputs/host_tensor.h"

namespace preheat::cli {

// What a model file itself says about its inputs, by input number: its weights, and its sample inputs where torch is
// there to read them and their shapes match the dimensions that were bound.
struct OwnInputs {
  std::map<int, reference::HostTensor> tensors;
  std::map<std::string, int64_t> symbols;  // of the program with those dimensions bound, as the tensors have them
  bool samples = false;                    // sample inputs are among them
};
absl::StatusOr<OwnInputs> ReadOwnInputs(const ModelProgram& program, const std::map<std::string, int64_t>& dims);

// The program as the compiler sees it: dimensions bound, functional.
absl::StatusOr<capture::AtenProgram> Prepare(const ModelProgram& program, const std::map<std::string, int64_t>& dims);

// One tensor for each input of a prepared program: `own` where it has one, made up otherwise, by the rules that the
// worker follows too.
absl::StatusOr<std::vector<reference::HostTensor>> MakeInputs(const capture::AtenProgram& program,
                                                              const OwnInputs& own);

// The same elements, row-major without gaps.
reference::HostTensor Dense(const reference::HostTensor& tensor);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_MODEL_INPUTS_H_
