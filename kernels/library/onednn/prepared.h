#ifndef PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARED_H_
#define PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARED_H_

#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/library/library_call.h"
#include "kernels/library/onednn/shapes.h"

namespace preheat::onednn {

const dnnl::engine& Engine();

// One argument of a primitive: the caller's memory, and the layout in which the primitive wants it.
struct Argument {
  enum class Role { kOperand, kResult, kEpilogue };
  Role role;
  int number;    // of the operand or epilogue
  int dnnl_arg;  // DNNL_ARG_...
  Desc given;
  Desc used;
  bool frozen = false;       // differs and stays: packed once
  bool into_result = false;  // a residual that the primitive adds to what lies in its result: copied there first
};

// A primitive with the reorders around it. Runs may be concurrent: each takes memory objects and a stream of its own
// from a pool.
class Prepared {
 public:
  Prepared(dnnl::primitive primitive, Desc scratchpad, std::vector<Argument> arguments);
  ~Prepared();

  int64_t scratch_bytes() const { return scratch_bytes_; }
  const std::string& pack_key(int operand) const { return pack_keys_[operand]; }
  int64_t packed_bytes(int operand) const;
  void Pack(int operand, const void* from, void* to) const;
  void Run(const preheat_lib_addresses& addresses) const;

 private:
  struct Place {
    bool reorders = false;  // through scratch, at each run
    bool packed = false;
    int64_t offset = 0;  // in scratch
    dnnl::reorder reorder;
  };
  struct Context;
  class Lease;
  const Argument* FindPacked(int operand) const;
  void Reorder(size_t argument, Context& context, const dnnl::memory& from, const dnnl::memory& to) const;
  void Load(size_t argument, Context& context, const preheat_lib_addresses& addresses) const;

  dnnl::primitive primitive_;
  Desc scratchpad_;
  std::vector<Argument> arguments_;
  std::vector<Place> places_;  // one an argument
  std::string pack_keys_[2];
  int64_t scratch_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> contexts_;  // guarded by mutex_; those not in use
};

}  // namespace preheat::onednn

#endif  // PREHEAT_KERNELS_LIBRARY_ONEDNN_PREPARED_H_
