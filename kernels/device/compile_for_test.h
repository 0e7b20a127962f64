#ifndef PREHEAT_KERNELS_DEVICE_COMPILE_FOR_TEST_H_
#define PREHEAT_KERNELS_DEVICE_COMPILE_FOR_TEST_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "compiler/support/digest.h"
#include "compiler/support/subprocess.h"
#include "gtest/gtest.h"

namespace preheat {

// A shared object's bytes and digest, as an artifact brings them.
struct TestCode {
  std::string bytes;
  std::string digest;
};

// A folder of its own that is gone with this object.
struct TestFolder {
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "preheat-test-XXXXXX").string();
    path = mkdtemp(name.data()) != nullptr ? name : "";
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

// The kernels' view of KernelArgs, as the emitter writes it.
inline constexpr char kKernelPrelude[] =
    "struct Args { void* const* buffers; const long* scalars; int* error; void* scratch; };\n"
    "#define KERNEL(name) extern \"C\" void name(const Args* a, long begin, long end)\n"
    "#define F32(i) static_cast<float*>(a->buffers[i])\n"
    "#define I64(i) static_cast<long*>(a->buffers[i])\n";

// Compiles freestanding C++ by the system's compiler.
inline TestCode CompileForTest(const std::string& source) {
  const TestFolder folder;
  const std::string in = folder.path + "/k.cc", out = folder.path + "/k.so";
  std::ofstream(in) << kKernelPrelude << source;
  auto compiler = Subprocess::Start({"g++", "-O2", "-shared", "-fPIC", "-nostdlib", "-fno-exceptions", in, "-o", out});
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  if (!compiler.ok()) return {};
  EXPECT_TRUE((*compiler)->Wait().Clean());
  std::ifstream file(out, std::ios::binary);
  TestCode code{std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()), ""};
  code.digest = Digest(code.bytes);
  return code;
}

}  // namespace preheat

#endif  // PREHEAT_KERNELS_DEVICE_COMPILE_FOR_TEST_H_
