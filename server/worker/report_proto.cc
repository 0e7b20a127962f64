#include "server/worker/report_proto.h"

namespace preheat::worker {

v1::FusionReport ToProto(const Report& report) {
  v1::FusionReport proto;
  proto.set_kernels_before(report.kernels_before);
  proto.set_kernels_after(report.kernels_after);
  proto.set_peak_bytes_before(report.peak_bytes_before);
  proto.set_peak_bytes_after(report.peak_bytes_after);
  for (const KernelReport& kernel : report.kernels) {
    v1::KernelReport& out = *proto.add_kernels();
    out.set_name(kernel.name);
    out.set_kind(kernel.kind);
    for (const std::string& op : kernel.ops) out.add_ops(op);
    out.set_bytes(kernel.bytes);
    out.set_flops(kernel.flops);
  }
  for (const auto& [name, count] : report.library_calls) {
    v1::CallCount& out = *proto.add_library_calls();
    out.set_name(name);
    out.set_count(count);
  }
  for (const auto& [op, entry] : report.extern_calls) {
    v1::ExternCall& out = *proto.add_extern_calls();
    out.set_op(op);
    out.set_count(entry.first);
    out.set_reason(entry.second);
  }
  for (const GraphBreak& found : report.graph_breaks) {
    v1::GraphBreak& out = *proto.add_graph_breaks();
    out.set_file(found.file);
    out.set_line(found.line);
    out.set_reason(found.reason);
  }
  for (const auto& [op, count] : report.native_ops) (*proto.mutable_native_ops())[op] = count;
  return proto;
}

}  // namespace preheat::worker
