#include "kernels/library/onednn/prepared.h"

#include <algorithm>
#include <utility>

namespace preheat::onednn {
namespace {

int64_t Rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

std::string KeyOf(const Desc& desc) {
  const dnnl_memory_desc_t& md = desc.data;
  std::string key = std::to_string(md.data_type);
  const auto add = [&key](int64_t n) { key += ":" + std::to_string(n); };
  for (int i = 0; i < md.ndims; ++i) {
    add(md.dims[i]);
    add(md.padded_dims[i]);
    add(md.format_desc.blocking.strides[i]);
  }
  for (int i = 0; i < md.format_desc.blocking.inner_nblks; ++i) {
    add(md.format_desc.blocking.inner_blks[i]);
    add(md.format_desc.blocking.inner_idxs[i]);
  }
  add(static_cast<int64_t>(md.extra.flags));
  return key;
}

void Check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) throw dnnl::error(status, what);
}

}  // namespace

const dnnl::engine& Engine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Memory objects and argument lists for one run at a time.
struct Prepared::Context {
  dnnl::stream stream{Engine()};
  std::vector<dnnl::memory> given, used;  // one an argument; `given` only where it is reordered
  dnnl::memory scratchpad;
  std::vector<dnnl_exec_arg_t> arguments;
};

class Prepared::Lease {
 public:
  explicit Lease(const Prepared& owner) : owner_(owner) {
    {
      std::lock_guard<std::mutex> lock(owner.mutex_);
      if (!owner.contexts_.empty()) {
        context_ = std::move(owner.contexts_.back());
        owner.contexts_.pop_back();
      }
    }
    if (context_ == nullptr) context_ = Make();
  }
  ~Lease() {
    std::lock_guard<std::mutex> lock(owner_.mutex_);
    owner_.contexts_.push_back(std::move(context_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Context& operator*() { return *context_; }

 private:
  std::unique_ptr<Context> Make() const {
    auto context = std::make_unique<Context>();
    for (size_t i = 0; i < owner_.arguments_.size(); ++i) {
      const Argument& argument = owner_.arguments_[i];
      context->given.push_back(owner_.places_[i].reorders ? dnnl::memory(argument.given, Engine(), nullptr)
                                                          : dnnl::memory());
      context->used.push_back(dnnl::memory(argument.used, Engine(), nullptr));
      if (!argument.into_result) context->arguments.push_back({argument.dnnl_arg, context->used.back().get()});
    }
    context->scratchpad = dnnl::memory(owner_.scratchpad_, Engine(), nullptr);
    context->arguments.push_back({DNNL_ARG_SCRATCHPAD, context->scratchpad.get()});
    return context;
  }

  const Prepared& owner_;
  std::unique_ptr<Context> context_;
};

Prepared::Prepared(dnnl::primitive primitive, Desc scratchpad, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)), scratchpad_(scratchpad), arguments_(std::move(arguments)) {
  scratch_bytes_ = Rounded(static_cast<int64_t>(scratchpad_.get_size()));
  for (const Argument& argument : arguments_) {
    Place place;
    if (argument.given != argument.used || argument.into_result) {
      place.packed = argument.frozen;
      place.reorders = !argument.frozen;
      const bool out = argument.role == Argument::Role::kResult;
      const Desc &from = out ? argument.used : argument.given, &to = out ? argument.given : argument.used;
      place.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(Engine(), from, Engine(), to));
      if (place.packed) pack_keys_[argument.number] = KeyOf(argument.given) + ">" + KeyOf(argument.used);
      if (place.reorders && !argument.into_result) {
        place.offset = scratch_bytes_;
        scratch_bytes_ += Rounded(static_cast<int64_t>(argument.used.get_size()));
      }
    }
    places_.push_back(std::move(place));
  }
}

Prepared::~Prepared() = default;

const Argument* Prepared::FindPacked(int operand) const {
  for (const Argument& argument : arguments_) {
    if (argument.role == Argument::Role::kOperand && argument.number == operand && argument.frozen) return &argument;
  }
  return nullptr;
}

int64_t Prepared::packed_bytes(int operand) const {
  const Argument* argument = FindPacked(operand);
  return argument != nullptr ? static_cast<int64_t>(argument->used.get_size()) : 0;
}

void Prepared::Pack(int operand, const void* from, void* to) const {
  const Argument* argument = FindPacked(operand);
  if (argument == nullptr) throw dnnl::error(dnnl_invalid_arguments, "the operand is not packed");
  dnnl::memory source(argument->given, Engine(), const_cast<void*>(from)), target(argument->used, Engine(), to);
  dnnl::stream stream(Engine());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

void Prepared::Reorder(size_t argument, Context& context, const dnnl::memory& from, const dnnl::memory& to) const {
  const dnnl_exec_arg_t list[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
  Check(dnnl_primitive_execute(places_[argument].reorder.get(), context.stream.get(), 2, list), "reorder");
}

// Points the argument's memory at the caller's, or at the scratch or packed memory that stands for it.
void Prepared::Load(size_t i, Context& context, const preheat_lib_addresses& addresses) const {
  const Argument& argument = arguments_[i];
  const Place& place = places_[i];
  const void* address = argument.role == Argument::Role::kResult    ? addresses.result
                        : argument.role == Argument::Role::kOperand ? addresses.operands[argument.number]
                                                                    : addresses.epilogue[argument.number];
  if (place.packed) address = addresses.packed[argument.number];
  if (place.reorders) {
    context.given[i].set_data_handle(const_cast<void*>(address));
    address = static_cast<char*>(addresses.scratch) + place.offset;
  }
  if (argument.into_result) return;
  context.used[i].set_data_handle(const_cast<void*>(address));
  if (place.reorders && argument.role != Argument::Role::kResult)
    Reorder(i, context, context.given[i], context.used[i]);
}

void Prepared::Run(const preheat_lib_addresses& addresses) const {
  Lease lease(*this);
  Context& context = *lease;
  size_t result = 0;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    Load(i, context, addresses);
    if (arguments_[i].role == Argument::Role::kResult) result = i;
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].into_result) Reorder(i, context, context.given[i], context.used[result]);
  }
  context.scratchpad.set_data_handle(addresses.scratch);
  Check(dnnl_primitive_execute(primitive_.get(), context.stream.get(), static_cast<int>(context.arguments.size()),
                               context.arguments.data()),
        "execute");
  if (places_[result].reorders) Reorder(result, context, context.used[result], context.given[result]);
  context.stream.wait();
}

}  // namespace preheat::onednn
