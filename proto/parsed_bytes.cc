#include "proto/parsed_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace preheat {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using WireFormat = google::protobuf::internal::WireFormatLite;

constexpr int kDeepest = 100;            // what protobuf's parser takes
constexpr int64_t kPointerBytes = 16;    // in a repeated field's array, which doubles as it grows
constexpr int64_t kReserved = 50000000;  // Protobuf makes that much room before a string's bytes are there
constexpr int64_t kStringBytes = 56;     // a std::string on the heap, allocator's part included
constexpr int64_t kMapNodeBytes = 64;
constexpr int64_t kUnknownBytes = 32;

// What a string of that size takes while it is read. A longer one grows, twice as large each time, and is there in the
// old size and the new one meanwhile.
int64_t StringBytes(uint32_t size) {
  if (size <= kReserved) return size;
  int64_t capacity = kReserved;
  while (capacity < size) capacity *= 2;
  return capacity + capacity / 2;
}

// Walks a message on the wire as its descriptor says and adds up what its parse would allocate.
class Walk {
 public:
  Walk(CodedInputStream& in, int64_t budget) : in_(in), budget_(budget) {}

  int64_t left() const { return budget_; }
  bool over_budget() const { return budget_ < 0; }

  // False when the bytes are malformed or over budget.
  bool Message(const Descriptor* type, int depth) {
    if (depth > kDeepest) return false;
    while (uint32_t tag = in_.ReadTag()) {
      const WireFormat::WireType wire = WireFormat::GetTagWireType(tag);
      const FieldDescriptor* field = type->FindFieldByNumber(WireFormat::GetTagFieldNumber(tag));
      if (!Field(Fits(field, wire) ? field : nullptr, wire, depth) || over_budget()) return false;
    }
    return in_.ConsumedEntireMessage();
  }

 private:
  // What comes in another form than its field has is kept as an unknown field.
  static bool Fits(const FieldDescriptor* field, WireFormat::WireType wire) {
    if (field == nullptr) return false;
    if (field->is_packable() && wire == WireFormat::WIRETYPE_LENGTH_DELIMITED) return true;
    return wire == WireFormat::WireTypeForFieldType(static_cast<WireFormat::FieldType>(field->type()));
  }

  bool Field(const FieldDescriptor* field, WireFormat::WireType wire, int depth) {
    uint64_t ignored64 = 0;
    uint32_t ignored32 = 0;
    switch (wire) {
      case WireFormat::WIRETYPE_VARINT: Charge(field); return in_.ReadVarint64(&ignored64);
      case WireFormat::WIRETYPE_FIXED64: Charge(field); return in_.ReadLittleEndian64(&ignored64);
      case WireFormat::WIRETYPE_FIXED32: Charge(field); return in_.ReadLittleEndian32(&ignored32);
      case WireFormat::WIRETYPE_LENGTH_DELIMITED: return Delimited(field, depth);
      default: return false;  // groups, which none of our messages has
    }
  }

  // A number of a known singular field lies in its message already.
  void Charge(const FieldDescriptor* field) {
    if (field == nullptr) budget_ -= kUnknownBytes;
    if (field != nullptr && field->is_repeated()) budget_ -= 2 * static_cast<int64_t>(sizeof(int64_t));
  }

  bool Delimited(const FieldDescriptor* field, int depth) {
    uint32_t size = 0;
    if (!in_.ReadVarint32(&size) || size > static_cast<uint32_t>(std::numeric_limits<int>::max())) return false;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) return Submessage(field, size, depth);
    if (field != nullptr && field->is_packable()) {
      budget_ -= 8 * static_cast<int64_t>(size);  // varints of one byte each, eight in memory
    } else {
      budget_ -= kStringBytes + kPointerBytes + StringBytes(size);
    }
    return !over_budget() && in_.Skip(static_cast<int>(size));
  }

  bool Submessage(const FieldDescriptor* field, uint32_t size, int depth) {
    const Descriptor* type = field->message_type();
    budget_ -= (field->is_map() ? kMapNodeBytes : kPointerBytes + SizeOf(type));
    if (over_budget()) return false;
    CodedInputStream::Limit limit = in_.PushLimit(static_cast<int>(size));
    if (in_.BytesUntilLimit() != static_cast<int>(size)) return false;  // reaches beyond the message around it
    const bool ok = Message(type, depth + 1);
    in_.PopLimit(limit);
    return ok;
  }

  // The factory takes a lock; a program has a hundred thousand messages of five types.
  static int64_t SizeOf(const Descriptor* type) {
    static thread_local std::unordered_map<const Descriptor*, int64_t> sizes;
    int64_t& size = sizes[type];
    if (size == 0) {
      size = static_cast<int64_t>(
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->SpaceUsedLong());
    }
    return size;
  }

  CodedInputStream& in_;
  int64_t budget_;
};

}  // namespace

int64_t ParsedBytes(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor* type, int64_t enough) {
  CodedInputStream in(&bytes);
  Walk walk(in, enough);
  if (walk.Message(type, 0)) return enough - walk.left();
  return walk.over_budget() ? enough - walk.left() : -1;
}

}  // namespace preheat
