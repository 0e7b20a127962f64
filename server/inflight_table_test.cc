#include "server/inflight_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace preheat::server {
namespace {

Outcome Done(const std::string& key) {
  Outcome outcome;
  outcome.key = key;
  outcome.result = v1::COMPILED;
  return outcome;
}
bool Never() { return false; }

TEST(InflightTable, OneOfManyDoesTheWork) {
  InflightTable table;
  std::atomic<int> leaders = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      auto [flight, leads] = table.Join("alias");
      if (leads) {
        ++leaders;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the others join meanwhile
        table.Finish(flight, Done("key"));
      }
      auto outcome = flight->Wait([](const v1::Progress&) {}, Never);
      EXPECT_TRUE(outcome.ok() && outcome->key == "key");
      table.Leave(flight);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(leaders, 1);
  EXPECT_EQ(table.waited_for(), 0u);
  EXPECT_TRUE(table.Join("alias").leads);  // the next one starts anew
}

TEST(InflightTable, TheFirstWithoutASourceIsToBringItForAll) {
  InflightTable table;
  EXPECT_EQ(table.JoinOrPromise("alias"), nullptr);
  EXPECT_EQ(table.waited_for(), 0u);
  std::shared_ptr<Flight> early = table.JoinOrPromise("alias");
  ASSERT_NE(early, nullptr);
  auto [flight, leads] = table.Join("alias");
  EXPECT_TRUE(leads);
  EXPECT_EQ(flight, early);
  EXPECT_FALSE(table.Join("alias").leads);
  EXPECT_EQ(table.JoinOrPromise("alias"), flight);
  std::this_thread::sleep_for(InflightTable::kSourceWait + std::chrono::milliseconds(100));
  table.Beat();
  table.Finish(flight, Done("key"));
  EXPECT_EQ(early->Wait([](const v1::Progress&) {}, Never)->key, "key") << "a promise that was kept does not expire";
  EXPECT_EQ(table.JoinOrPromise("alias"), nullptr) << "the next one starts anew";
}

TEST(InflightTable, APromiseThatIsNotKeptHoldsNobodyLong) {
  InflightTable table;
  EXPECT_EQ(table.JoinOrPromise("alias"), nullptr);
  std::shared_ptr<Flight> waiting = table.JoinOrPromise("alias");
  ASSERT_NE(waiting, nullptr);
  int told = 0;
  waiting->Follow([](const v1::Progress&) {},
                  [&](const absl::StatusOr<Outcome>& outcome) { told += outcome->result == v1::SOURCE_NEEDED; });
  table.Beat();
  EXPECT_EQ(told, 0);
  std::this_thread::sleep_for(InflightTable::kSourceWait + std::chrono::milliseconds(100));
  table.Beat();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(table.waited_for(), 0u);
  table.Leave(waiting);
  EXPECT_TRUE(table.Join("alias").leads);
}

TEST(InflightTable, JoinsByKeyToo) {
  InflightTable table;
  auto a = table.Join("a").flight, b = table.Join("b").flight;
  EXPECT_EQ(table.ClaimKey("key", a), a);
  EXPECT_EQ(table.ClaimKey("key", a), a);  // asked again after its worker was lost
  ASSERT_EQ(table.ClaimKey("key", b), a);
  std::string followed;
  a->Follow([](const v1::Progress&) {}, [&](const absl::StatusOr<Outcome>& outcome) { followed = outcome->key; });
  table.Leave(a);  // its own request goes away; b still waits
  EXPECT_EQ(table.waited_for(), 2u);
  table.Finish(a, Done("key"));
  EXPECT_EQ(followed, "key");
  EXPECT_EQ(table.ClaimKey("key", b), b);
}

// Its worker was lost, and the next one has another compiler.
TEST(InflightTable, AFlightMakesTheLastKeyThatItClaimed) {
  InflightTable table;
  auto a = table.Join("a").flight, b = table.Join("b").flight;
  EXPECT_EQ(table.ClaimKey("old", a), a);
  EXPECT_EQ(table.ClaimKey("new", a), a);
  table.Finish(a, Done("new"));
  EXPECT_EQ(table.ClaimKey("old", b), b);
  EXPECT_EQ(table.ClaimKey("new", b), b);
}

TEST(InflightTable, TheLastToLeaveAbandonsTheWork) {
  InflightTable table;
  auto flight = table.Join("alias").flight;
  EXPECT_FALSE(table.Join("alias").leads);
  int abandoned = 0;
  table.OnAbandoned(flight, [&] { ++abandoned; });
  table.ClaimKey("key", flight);
  table.Leave(flight);
  EXPECT_EQ(abandoned, 0);
  table.Leave(flight);
  EXPECT_EQ(abandoned, 1);
  auto next = table.Join("alias");
  EXPECT_TRUE(next.leads);
  EXPECT_EQ(table.ClaimKey("key", next.flight), next.flight);
  // A late end of the abandoned work must not end its successor.
  table.Finish(flight, Done("key"));
  EXPECT_EQ(table.waited_for(), 1u);
  table.OnAbandoned(flight, [&] { ++abandoned; });
  EXPECT_EQ(abandoned, 2);  // too late to be kept: called at once
}

TEST(InflightTable, KeptWorkOutlivesItsWaiters) {
  InflightTable table;
  auto flight = table.Join("alias").flight;
  table.Keep(flight);
  table.OnAbandoned(flight, [] { FAIL(); });
  EXPECT_EQ(table.waited_for(), 1u);
  table.Leave(flight);
  EXPECT_EQ(table.waited_for(), 0u);
  auto late = table.Join("alias");
  EXPECT_FALSE(late.leads);
  EXPECT_EQ(late.flight, flight);
  EXPECT_EQ(table.waited_for(), 1u);
  table.Finish(flight, Done("key"));
  EXPECT_TRUE(table.Join("alias").leads);
}

TEST(InflightTable, AFinishedFlightIsNotAbandoned) {
  InflightTable table;
  auto flight = table.Join("alias").flight;
  bool abandoned = false;
  table.OnAbandoned(flight, [&] { abandoned = true; });
  table.Finish(flight, Done("key"));
  table.Leave(flight);
  EXPECT_FALSE(abandoned);
}

TEST(Flight, TellsProgressAndEndsForTheCancelled) {
  Flight flight("alias");
  v1::Progress progress;
  progress.set_stage("passes");
  flight.Tell(progress);
  std::string stage;
  auto outcome = flight.Wait([&](const v1::Progress& p) { stage = p.stage(); }, [&] { return !stage.empty(); });
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(stage, "passes");
  flight.Finish(absl::InternalError("first"));
  flight.Finish(Done("second"));
  EXPECT_EQ(flight.Wait([](const v1::Progress&) {}, Never).status().message(), "first");
}

TEST(Flight, StressOfJoinLeaveAndFinish) {
  InflightTable table;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto [flight, leads] = table.Join("alias" + std::to_string(i % 3));
        if (leads) {
          std::shared_ptr<Flight> maker = table.ClaimKey("key", flight);
          if (maker != flight) {
            maker->Follow([](const v1::Progress&) {},
                          [&table, flight = flight, maker](const absl::StatusOr<Outcome>& outcome) {
                            table.Finish(flight, outcome);
                            table.Leave(maker);
                          });
            table.Finish(maker, Done("key"));  // anybody may
          } else {
            flight->Tell(v1::Progress());
            table.Finish(flight, Done("key"));
          }
        }
        int asked = 0;
        auto outcome = flight->Wait([](const v1::Progress&) {}, [&] { return t == 0 && ++asked > 0; });
        EXPECT_TRUE(outcome.ok() || absl::IsCancelled(outcome.status()));
        table.Leave(flight);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.waited_for(), 0u);
}

TEST(Flight, FollowersAreToldUntilTheyUnfollow) {
  Flight flight("alias");
  v1::Progress queued;
  queued.set_stage("queued");
  flight.Tell(queued);
  std::string stayed, left;
  int ends = 0;
  flight.Follow([&](const v1::Progress& progress) { stayed += progress.stage() + " "; },
                [&](const absl::StatusOr<Outcome>&) { ++ends; });
  const int64_t leaver = flight.Follow([&](const v1::Progress& progress) { left += progress.stage() + " "; },
                                       [&](const absl::StatusOr<Outcome>&) { ADD_FAILURE() << "it has left"; });
  flight.Unfollow(leaver);
  v1::Progress passes;
  passes.set_stage("passes");
  flight.Tell(passes);
  flight.Finish(Done("key"));
  flight.Finish(Done("again"));
  EXPECT_EQ(stayed, "queued passes ");
  EXPECT_EQ(left, "queued ");
  EXPECT_EQ(ends, 1);
  flight.Follow([](const v1::Progress&) {},
                [&](const absl::StatusOr<Outcome>& outcome) {
                  EXPECT_EQ(outcome->key, "key");
                  ++ends;
                });
  EXPECT_EQ(ends, 2) << "it is over: told at once";
}

}  // namespace
}  // namespace preheat::server
