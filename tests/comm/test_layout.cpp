#include "megaflux/comm/layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>

#include "megaflux/base/check.h"
#include "megaflux/comm/symmetric_heap.h"

namespace megaflux {
namespace {

TEST(Layout, HeaderExample) {
  Layout layout;
  const Field<float> rows = layout.add<float>("rows", 100);
  const CounterField y_count = layout.add_counters("y_count", 40);
  EXPECT_EQ(rows.offset, 0u);
  EXPECT_EQ(y_count.offset, 512u);
  EXPECT_EQ(y_count.bank_words, 64u);
  EXPECT_EQ(layout.total_bytes(), 1024u);
}

TEST(Layout, EmptyFieldsTakeNoRoom) {
  Layout layout;
  const Field<double> none = layout.add<double>("none", 0);
  const Field<double> one = layout.add<double>("one", 1);
  EXPECT_EQ(none.offset, one.offset);
  EXPECT_EQ(layout.total_bytes(), kFieldAlignment);
}

TEST(Layout, RefusesBadFields) {
  Layout layout;
  layout.add<int>("x", 1);
  EXPECT_THROW(layout.add<int>("x", 1), Error);
  EXPECT_THROW(layout.add<int>("y", 1, 3), Error);
  EXPECT_THROW(layout.add<int>("z", std::numeric_limits<size_t>::max() / 4), Error);
  EXPECT_THROW(layout.add_counters("c", std::numeric_limits<size_t>::max() / 8), Error);
  EXPECT_EQ(layout.fields().size(), 1u) << "a refused field must not be listed";
}

RC_GTEST_PROP(Layout, FieldsAreAlignedAndDisjoint, ()) {
  Layout layout;
  const auto num_fields = *rc::gen::inRange(1, 20);
  for (int i = 0; i < num_fields; ++i) {
    const auto count = *rc::gen::inRange<size_t>(0, 1000);
    const size_t alignment = size_t{1} << *rc::gen::inRange(0, 13);
    std::string name("f");
    name += std::to_string(i);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        layout.add<uint8_t>(name, count, alignment);
        break;
      case 1:
        layout.add<double>(name, count, std::max<size_t>(alignment, 8));
        break;
      case 2:
        layout.add_epochs(name, count);
        break;
      default:
        layout.add_counters(name, count);
    }
  }
  size_t end = 0;
  for (const FieldInfo& field : layout.fields()) {
    RC_ASSERT(field.offset % field.alignment == 0u);
    RC_ASSERT(field.offset >= end);
    end = field.offset + field.bytes();
  }
  RC_ASSERT(end <= layout.total_bytes());
  RC_ASSERT(layout.total_bytes() < end + kFieldAlignment);
}

TEST(SymmetricHeap, IsZeroedAndSeparatePerRank) {
  Layout layout;
  const Field<uint64_t> x = layout.add<uint64_t>("x", 33);
  SymmetricHeap heap(layout, 3);
  const HeapView view = heap.view();
  for (int32_t rank = 0; rank < 3; ++rank) {
    for (uint64_t& value : view.span_of(rank, x)) {
      EXPECT_EQ(value, 0u);
      value = 100u + rank;
    }
  }
  for (int32_t rank = 0; rank < 3; ++rank) {
    for (const uint64_t value : view.span_of(rank, x)) EXPECT_EQ(value, 100u + rank);
  }
}

TEST(SymmetricHeap, ResetTouchesSignalsOnly) {
  Layout layout;
  const Field<uint32_t> data = layout.add<uint32_t>("data", 5);
  const Field<uint32_t> epochs = layout.add_epochs("epochs", 5);
  const CounterField counts = layout.add_counters("counts", 5);
  SymmetricHeap heap(layout, 2);
  const HeapView view = heap.view();
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (uint32_t& word : view.span_of(rank, data)) word = 7;
    for (uint32_t& word : view.span_of(rank, epochs)) word = 8;
    for (size_t i = 0; i < 5; ++i) {
      view.at(rank, counts, 0)[i] = 9;
      view.at(rank, counts, 1)[i] = 10;
    }
  }
  heap.reset_signals(0xfffffff0u);
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (const uint32_t word : view.span_of(rank, data)) EXPECT_EQ(word, 7u);
    for (const uint32_t word : view.span_of(rank, epochs)) EXPECT_EQ(word, 0xfffffff0u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(view.at(rank, counts, 0)[i], 0u);
      EXPECT_EQ(view.at(rank, counts, 1)[i], 0u);
    }
  }
}

TEST(SymmetricHeap, RefusesRankCounts) {
  for (const int32_t num_ranks : {0, -1, 1025}) {
    EXPECT_THROW(SymmetricHeap(Layout(), num_ranks), Error) << num_ranks;
  }
}

}  // namespace
}  // namespace megaflux
