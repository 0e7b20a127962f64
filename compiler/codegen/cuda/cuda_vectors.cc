#include "compiler/codegen/cuda/cuda_vectors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/emit_c.h"

namespace preheat::codegen {

using ir::DType;
using ir::Expr;

namespace {

// The widest memory type that a vector of so many bytes is made of.
std::pair<std::string, int64_t> MemoryType(int64_t bytes) {
  if (bytes % 16 == 0) return {"uint4", 16};
  if (bytes % 8 == 0) return {"uint2", 8};
  return {"unsigned", 4};
}

}  // namespace

std::string CudaVectors::PackType(DType dtype, int64_t width) {
  std::string type(StorageType(dtype));
  std::string name = absl::StrCat("V", width, "_", absl::StrReplaceAll(type, {{" ", "_"}}));
  types_.insert(absl::StrCat("struct ", name, " { ", type, " x[", width, "]; };\n"));
  return name;
}

// What a thread keeps of a vector: the words that memory has, so that half of a register is not taken for each 16 bits.
std::string CudaVectors::WordsType(int64_t bytes) {
  std::string name = absl::StrCat("W", bytes / kWord);
  types_.insert(absl::StrCat("struct ", name, " { unsigned w[", bytes / kWord, "]; };\n"));
  return name;
}

std::string CudaVectors::First(int buffer, const Expr& index, const std::string& inner) {
  return absl::StrCat("b", buffer, " + (", Index(index.Substitute({{inner, Expr::Symbol("first")}})), ")");
}

// --- Loads ---

std::string CudaVectors::KeptType(DType dtype, int64_t width) {
  return width == 1 ? std::string(StorageType(dtype)) : WordsType(width * ir::DTypeSize(dtype));
}

std::string CudaVectors::KeptElement(const std::string& name, DType dtype, int64_t width) {
  if (width == 1) return absl::StrCat(name, "[i]");
  const std::string w = absl::StrCat(name, "[i].w"), type(StorageType(dtype));
  switch (ir::DTypeSize(dtype)) {
    case 1: return absl::StrCat("(", type, ")(", w, "[u >> 2] >> (u & 3) * 8)");
    case 2: return absl::StrCat("(", type, ")(", w, "[u >> 1] >> (u & 1) * 16)");
    case 4: return absl::StrCat("__builtin_bit_cast(", type, ", ", w, "[u])");
    default:
      return absl::StrCat("__builtin_bit_cast(", type, ", (unsigned long)", w, "[2 * u] | (unsigned long)", w,
                          "[2 * u + 1] << 32)");
  }
}

void CudaVectors::LoadVector(const Stmt& load, const std::string& name, const std::string& inner, int64_t width,
                             bool aligned) {
  const DType dtype = k_.buffers[load.buffer].dtype;
  const int64_t bytes = width * ir::DTypeSize(dtype);
  const std::string type = PackType(dtype, width), live = load.predicate >= 0 ? Ref(load.predicate) : "";
  const std::string guard = live.empty() ? "" : absl::StrCat("if (", live, ") ");
  if (width == 1) {
    Line(absl::StrCat(guard, name, "[i] = b", load.buffer, "[", Index(load.index), "];"));
    return;
  }
  const std::string from = First(load.buffer, load.index, inner), words = WordsType(bytes);
  if (aligned) {
    aligned_[load.buffer] = std::max(aligned_[load.buffer], std::min<int64_t>(16, bytes));
    Line(absl::StrCat(guard, name, "[i] = __builtin_bit_cast(", words, ", ", AlignedVector(from, bytes), ");"));
    return;
  }
  OpenIf(live);
  Line(absl::StrCat(type, " t;"));
  Line(absl::StrCat("for (int u = 0; u < ", width, "; ++u) t.x[u] = (", from, ")[u];"));
  Line(absl::StrCat(name, "[i] = __builtin_bit_cast(", words, ", t);"));
  Close();
}

// All bytes from there, in one value.
std::string CudaVectors::AlignedVector(const std::string& from, int64_t bytes) {
  auto [memory, size] = MemoryType(bytes);
  std::string wide = absl::StrCat("M", bytes);
  std::vector<std::string> fields, parts;
  for (int64_t n = 0; n * size < bytes; ++n) {
    fields.push_back(absl::StrCat("m", n));
    parts.push_back(absl::StrCat("((const ", memory, "*)(", from, "))[", n, "]"));
  }
  types_.insert(absl::StrCat("struct ", wide, " { ", memory, " ", absl::StrJoin(fields, ", "), "; };\n"));
  return absl::StrCat(wide, "{", absl::StrJoin(parts, ", "), "}");
}

void CudaVectors::MakeOpaque(const std::string& name, DType dtype, int64_t width, int64_t in_flight) {
  if (width == 1) return;
  Line("#ifdef __CUDACC_RTC__");
  Line("#pragma unroll");
  Line(absl::StrCat("for (int i = 0; i < ", in_flight, "; ++i) {"));
  for (int64_t k = 0; k < width * ir::DTypeSize(dtype) / kWord; ++k)
    Line(absl::StrCat("  asm volatile(\"\" : \"+r\"(", name, "[i].w[", k, "]));"));
  Line("}");
  Line("#endif");
}

// --- Stores ---

// 16-bit floats wait as f32 and are rounded two at a time.
void CudaVectors::DeclarePack(const Store& store, size_t number, int64_t width) {
  const DType dtype = k_.buffers[store.buffer].dtype;
  Line(absl::StrCat(PackType(ComputeType(dtype), width), " o", number, ";"));
}

std::string CudaVectors::PackElement(const Store& store, size_t number) {
  const bool half = IsHalf(k_.buffers[store.buffer].dtype);
  return absl::StrCat("o", number, ".x[u] = ", half ? Ref(Unrounded(store)) : Stored(store), ";");
}

// Word k (four bytes) of the pack `name`.
std::string CudaVectors::Word(const std::string& name, DType dtype, int64_t k) {
  auto element = [&](int64_t i) { return absl::StrCat(name, ".x[", i, "]"); };
  if (IsHalf(dtype)) {
    const char* f = dtype == DType::kBF16 ? "ph_two_bf16" : "ph_two_f16";
    math_.insert(f);
    return absl::StrCat(f, "(", element(2 * k), ", ", element(2 * k + 1), ")");
  }
  switch (ir::DTypeSize(dtype)) {
    case 1:
      return absl::StrCat("(unsigned)(unsigned char)", element(4 * k), " | (unsigned)(unsigned char)",
                          element(4 * k + 1), " << 8 | (unsigned)(unsigned char)", element(4 * k + 2),
                          " << 16 | (unsigned)(unsigned char)", element(4 * k + 3), " << 24");
    case 2:
      return absl::StrCat("(unsigned)(unsigned short)", element(2 * k), " | (unsigned)(unsigned short)",
                          element(2 * k + 1), " << 16");
    case 4: return absl::StrCat("__builtin_bit_cast(unsigned, ", element(k), ")");
    default:
      return absl::StrCat("(unsigned)(__builtin_bit_cast(unsigned long, ", element(k / 2), ")", k % 2 ? " >> 32" : "",
                          ")");
  }
}

void CudaVectors::StorePack(const Store& store, size_t number, const std::string& inner, int64_t width) {
  const DType dtype = k_.buffers[store.buffer].dtype;
  const int64_t bytes = width * ir::DTypeSize(dtype);
  Line(absl::StrCat(StorageType(dtype), "* to", number, " = ", First(store.buffer, store.index, inner), ";"));
  aligned_[store.buffer] = std::max(aligned_[store.buffer], std::min<int64_t>(16, bytes));
  auto [memory, size] = MemoryType(bytes);
  const std::string name = absl::StrCat("o", number);
  OpenIf("aligned");
  for (int64_t n = 0; n * size < bytes; ++n) {
    std::vector<std::string> words;
    for (int64_t k = 0; k < size / kWord; ++k) words.push_back(Word(name, dtype, n * size / kWord + k));
    std::string value = size == kWord ? words[0] : absl::StrCat(memory, "{", absl::StrJoin(words, ", "), "}");
    Line(absl::StrCat("((", memory, "*)to", number, ")[", n, "] = ", value, ";"));
  }
  Close();
  Open("else");
  const std::string element = absl::StrCat(name, ".x[u]");
  Line(absl::StrCat("for (int u = 0; u < ", width, "; ++u) to", number,
                    "[u] = ", IsHalf(dtype) ? StoreText(element, DType::kF32, dtype, math_) : element, ";"));
  Close();
}

}  // namespace preheat::codegen
