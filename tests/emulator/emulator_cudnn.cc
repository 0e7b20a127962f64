// cuDNN's graph interface as far as Preheat uses it, on the host: PREHEAT_CUDNN names this library. A descriptor is
// what was set on it; a plan is its graph, done operation by operation in float64.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulator/emulator.h"

namespace {

struct Descriptor {
  std::map<int, std::vector<int64_t>> numbers;                    // by attribute
  std::map<int, std::vector<std::shared_ptr<Descriptor>>> parts;  // likewise
  std::map<int, std::vector<void*>> pointers;
};
using Shared = std::shared_ptr<Descriptor>;
Shared& Of(void* handle) { return *static_cast<Shared*>(handle); }

struct Handle {
  void* stream = nullptr;
};

constexpr int kInt = 3, kPointer = 6, kPart = 15;  // types of attributes

// --- Tensors ---

struct Tensor {
  std::vector<int64_t> sizes, strides;
  int type = 0;
  void* data = nullptr;
  std::vector<double> values;  // of a virtual one, dense

  int64_t Elements() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
};
using Index = std::vector<int64_t>;

int64_t Place(const Tensor& t, const Index& index) {
  int64_t at = 0, dense = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    const int64_t i = t.sizes[d] == 1 ? 0 : index[d];  // grows to what it is added to
    at += i * t.strides[d];
    dense = dense * t.sizes[d] + i;
  }
  return t.data != nullptr ? at : dense;
}
double Get(const Tensor& t, const Index& index) {
  const int64_t at = Place(t, index);
  return t.data != nullptr ? Load(t.data, at, t.type) : t.values[static_cast<size_t>(at)];
}
void Put(Tensor& t, const Index& index, double value) {
  const int64_t at = Place(t, index);
  if (t.data != nullptr) {
    Store(t.data, at, t.type, value);
  } else {
    t.values[static_cast<size_t>(at)] = value;
  }
}

template <typename Body>
void ForEach(const std::vector<int64_t>& sizes, const Body& body) {
  for (int64_t s : sizes) {
    if (s == 0) return;
  }
  Index index(sizes.size(), 0);
  while (true) {
    body(index);
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

class Run {
 public:
  Run(Shared graph, Shared pack) : graph_(std::move(graph)) {
    const std::vector<int64_t>& uids = pack->numbers[1000];
    for (size_t i = 0; i < uids.size(); ++i) memory_[uids[i]] = pack->pointers[1001][i];
  }

  int Do() {
    for (const Shared& operation : graph_->parts[801]) {
      if (!One(*operation)) return 3000;
    }
    return 0;
  }

 private:
  Tensor& At(const Shared& tensor) {
    auto [found, fresh] = tensors_.try_emplace(tensor->numbers[906][0]);
    Tensor& t = found->second;
    if (!fresh) return t;
    const int64_t type = tensor->numbers[901][0];
    t.sizes = tensor->numbers[902], t.strides = tensor->numbers[903];
    t.type = type == 9 ? 14 : static_cast<int>(type);
    if (tensor->numbers[907][0] != 0) {
      t.values.assign(static_cast<size_t>(t.Elements()), 0);
    } else {
      t.data = memory_.at(tensor->numbers[906][0]);
    }
    return t;
  }

  // Operations are told apart by what is set on them.
  bool One(Descriptor& operation) {
    const auto has = [&](int attribute) { return operation.parts.count(attribute) != 0; };
    if (has(753)) return Pointwise(operation);
    if (has(1522)) return MatMul(operation);
    if (has(1611)) return Reduce(operation);
    if (has(2201)) return Reshape(operation);
    return Convolve(operation);
  }

  bool Pointwise(Descriptor& operation) {
    Tensor &x = At(operation.parts[751][0]), &y = At(operation.parts[753][0]);
    Descriptor& kind = *operation.parts[750][0];
    const int64_t mode = kind.numbers[0][0];
    const auto part = [&](int name) {
      return operation.parts.count(name) != 0 ? &At(operation.parts[name][0]) : nullptr;
    };
    Tensor *other = part(752), *condition = part(758);
    if ((mode == 601) != (condition != nullptr)) return false;
    bool known = true;
    ForEach(y.sizes, [&](const Index& i) {
      if (mode == 501) return Put(y, i, static_cast<double>(i[static_cast<size_t>(kind.numbers[9][0])]));
      if (condition != nullptr) return Put(y, i, Get(*condition, i) != 0 ? Get(x, i) : Get(*other, i));
      Put(y, i, Apply(mode, Get(x, i), other != nullptr ? Get(*other, i) : 0, known));
    });
    return known;
  }
  static double Apply(int64_t mode, double x, double other, bool& known) {
    switch (mode) {
      case 0: return x + other;
      case 1: return x * other;
      case 6: return x / other;
      case 9: return x - other;
      case 13: return std::exp(x);
      case 15: return std::log(x);
      case 21: return x;
      case 100: return x < 0 ? 0 : x;
      case 303: return x >= other ? 1 : 0;
      default: return known = false, 0.0;
    }
  }

  // The index in a tensor some of whose dimensions each stand for a group of another's.
  static Index Grouped(Index index, const std::vector<int64_t>& from, const std::vector<int64_t>& to, size_t dims) {
    for (size_t d = 0; d < dims; ++d) index[d] = index[d] * to[d] / from[d];
    return index;
  }

  bool MatMul(Descriptor& operation) {
    Tensor &a = At(operation.parts[1520][0]), &b = At(operation.parts[1521][0]), &c = At(operation.parts[1522][0]);
    const size_t last = c.sizes.size() - 1;
    if (a.sizes[last] != b.sizes[last - 1] || a.sizes[last - 1] != c.sizes[last - 1] || b.sizes[last] != c.sizes[last])
      return false;
    ForEach(c.sizes, [&](const Index& i) {
      Index left = Grouped(i, c.sizes, a.sizes, last - 1), right = Grouped(i, c.sizes, b.sizes, last - 1);
      double sum = 0;
      for (int64_t k = 0; k < a.sizes[last]; ++k) {
        left[last] = right[last - 1] = k;
        sum += Get(a, left) * Get(b, right);
      }
      Put(c, i, sum);
    });
    return true;
  }

  bool Reduce(Descriptor& operation) {
    Tensor &x = At(operation.parts[1610][0]), &y = At(operation.parts[1611][0]);
    const bool max = operation.parts[1612][0]->numbers[1600][0] == 3;
    Tensor sums = y;
    sums.data = nullptr;
    sums.values.assign(static_cast<size_t>(y.Elements()), max ? -INFINITY : 0);
    ForEach(x.sizes, [&](const Index& i) {
      const Index at = Grouped(i, x.sizes, y.sizes, i.size());
      Put(sums, at, max ? std::max(Get(sums, at), Get(x, i)) : Get(sums, at) + Get(x, i));
    });
    ForEach(y.sizes, [&](const Index& i) { Put(y, i, Get(sums, i)); });
    return true;
  }

  // Only the last two dimensions exchanged.
  bool Reshape(Descriptor& operation) {
    Tensor &x = At(operation.parts[2200][0]), &y = At(operation.parts[2201][0]);
    ForEach(x.sizes, [&](const Index& i) {
      Index to = i;
      std::swap(to[to.size() - 1], to[to.size() - 2]);
      Put(y, to, Get(x, i));
    });
    return true;
  }

  // Every product of the convolution, added where the form wants it.
  bool Convolve(Descriptor& operation) {
    const int form = operation.parts.count(705) != 0 ? 0 : operation.parts.count(710) != 0 ? 1 : 2;
    constexpr int kGeometry[] = {702, 708, 714}, kX[] = {704, 710, 716}, kW[] = {703, 709, 715}, kY[] = {705, 711, 717};
    Descriptor& geometry = *operation.parts[kGeometry[form]][0];
    Tensor &x = At(operation.parts[kX[form]][0]), &w = At(operation.parts[kW[form]][0]),
           &y = At(operation.parts[kY[form]][0]);
    if (x.sizes[1] % w.sizes[1] != 0 || w.sizes[0] != y.sizes[1] || x.sizes[0] != y.sizes[0]) return false;
    const int64_t groups = x.sizes[1] / w.sizes[1], of_group = w.sizes[0] / groups;
    Tensor& target = form == 0 ? y : form == 1 ? x : w;
    Tensor sums = target;
    sums.data = nullptr;
    sums.values.assign(static_cast<size_t>(target.Elements()), 0);
    const std::vector<int64_t> taps(w.sizes.begin() + 1, w.sizes.end());
    ForEach(y.sizes, [&](const Index& out) {
      ForEach(taps, [&](const Index& tap) {
        Index in = out, filter = {out[1]};
        filter.insert(filter.end(), tap.begin(), tap.end());
        in[1] = out[1] / of_group * w.sizes[1] + tap[0];
        for (size_t d = 2; d < out.size(); ++d) {
          in[d] = out[d] * geometry.numbers[103][d - 2] - geometry.numbers[105][d - 2] +
                  tap[d - 1] * geometry.numbers[102][d - 2];
          if (in[d] < 0 || in[d] >= x.sizes[d]) return;
        }
        const Index& at = form == 0 ? out : form == 1 ? in : filter;
        const double product = form == 0   ? Get(x, in) * Get(w, filter)
                               : form == 1 ? Get(y, out) * Get(w, filter)
                                           : Get(x, in) * Get(y, out);
        Put(sums, at, Get(sums, at) + product);
      });
    });
    ForEach(target.sizes, [&](const Index& i) { Put(target, i, Get(sums, i)); });
    return true;
  }

  const Shared graph_;
  std::map<int64_t, void*> memory_;
  std::map<int64_t, Tensor> tensors_;  // by uid
};

size_t SizeOf(int type) { return type == 2 ? 1 : type == 0 || type == kInt || type == 5 || type == kPointer ? 8 : 4; }

// Plans that were written down: "plan 7". They hold for this process.
std::vector<Shared>& Written() {
  static auto& plans = *new std::vector<Shared>();
  return plans;
}
int WriteDown(const Shared& plan, int64_t capacity, int64_t* size, void* text) {
  Written().push_back(plan);
  const std::string number = "plan " + std::to_string(Written().size() - 1);
  *size = static_cast<int64_t>(number.size()) + 1;
  if (*size > capacity) return 2000;
  return std::memcpy(text, number.c_str(), number.size() + 1), 0;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }
int cudnnCreate(void** handle) { return *handle = new Handle, 0; }
int cudnnSetStream(void* handle, void* stream) { return static_cast<Handle*>(handle)->stream = stream, 0; }
int cudnnBackendCreateDescriptor(int, void** descriptor) {
  return *descriptor = new Shared(std::make_shared<Descriptor>()), 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) { return delete static_cast<Shared*>(descriptor), 0; }
int cudnnBackendFinalize(void*) { return 0; }

int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t count, const void* values) {
  if (attribute == 405) {
    const size_t number = std::strtoul(static_cast<const char*>(values) + 5, nullptr, 10);
    if (number >= Written().size()) return 2000;
    return Of(descriptor)->parts[401] = Written()[number]->parts[401], 0;
  }
  Descriptor& d = *Of(descriptor);
  for (int64_t i = 0; i < count; ++i) {
    const char* value = static_cast<const char*>(values) + static_cast<size_t>(i) * (type == kPart ? 8 : SizeOf(type));
    if (type == kPart || type == kPointer) {
      void* pointer = nullptr;
      std::memcpy(&pointer, value, sizeof(pointer));
      if (type == kPart) {
        d.parts[attribute].push_back(Of(pointer));
      } else {
        d.pointers[attribute].push_back(pointer);
      }
    } else {
      int64_t number = 0;
      std::memcpy(&number, value, SizeOf(type));
      d.numbers[attribute].push_back(number);
    }
  }
  return 0;
}

// Two configurations for every graph, of engines without notes.
int cudnnBackendGetAttribute(void* descriptor, int attribute, int, int64_t wanted, int64_t* count, void* values) {
  Descriptor& d = *Of(descriptor);
  if (attribute == 405) return WriteDown(Of(descriptor), wanted, count, values);
  *count = attribute == 1303 || attribute == 1305 ? 0 : attribute == 202 ? 2 : 1;
  if (wanted == 0 || *count == 0) return 0;
  if (attribute == 402) {
    *static_cast<int64_t*>(values) = 64;
  } else if (attribute == 202) {
    for (int64_t i = 0; i < *count; ++i) Of(static_cast<void**>(values)[i])->parts[201] = d.parts[201];
  }
  return 0;
}

int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  Shared graph = Of(plan)->parts[401][0]->parts[201][0], addresses = Of(pack);
  return Do(static_cast<Handle*>(handle)->stream, [graph, addresses] { return Run(graph, addresses).Do(); });
}

}  // extern "C"
