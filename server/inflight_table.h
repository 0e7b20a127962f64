#ifndef PREHEAT_SERVER_INFLIGHT_TABLE_H_
#define PREHEAT_SERVER_INFLIGHT_TABLE_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/flight.h"

namespace preheat::server {

// Single flight: of requests for the same thing one does the work. First by alias, when a request comes in; again by
// key, once a worker knows it, since different sources may be one program. Safe from several threads at once.
class InflightTable {
 public:
  struct Joined {
    std::shared_ptr<Flight> flight;
    bool leads = false;  // the caller has to start the work
  };
  // Joins the flight of this alias or starts one. Each Join needs one Leave.
  Joined Join(const std::string& alias);

  // For a request without the source that would be compiled. Joins the flight of this alias like Join; where there is
  // none, null: the caller is to bring the source, and those who come without one until it does share its flight. If
  // it does not, they are told SOURCE_NEEDED after kSourceWait or a beat later.
  std::shared_ptr<Flight> JoinOrPromise(const std::string& alias);
  static constexpr std::chrono::milliseconds kSourceWait{1000};

  // The flight goes on when nobody waits for it: for work that is nobody's request. It ends with Finish.
  void Keep(const std::shared_ptr<Flight>& flight);

  // What to do when nobody waits for the flight any more.
  void OnAbandoned(const std::shared_ptr<Flight>& flight, std::function<void()> abandon);

  // The flight wants to make `key`. Returns itself when it may (also when asked again; a flight makes one
  // key, the last), otherwise the flight that is making it; then the caller is one more that waits for that one and
  // calls Leave in the end.
  std::shared_ptr<Flight> ClaimKey(const std::string& key, const std::shared_ptr<Flight>& flight);

  // One waiter less. The last one of an unfinished flight takes it out of the table and calls what OnAbandoned has set.
  void Leave(const std::shared_ptr<Flight>& flight);

  // Takes the flight out, so that the next request starts anew, then finishes it.
  void Finish(const std::shared_ptr<Flight>& flight, absl::StatusOr<Outcome> outcome);

  // Flight::Beat of all, and the end of promises that were not kept. Called about once a second.
  void Beat();

  // Flights that somebody waits for: kept ones that nobody does are not counted.
  size_t waited_for();

 private:
  struct Entry {
    std::shared_ptr<Flight> flight;
    int waiters = 0;
    bool kept = false;
    std::optional<std::chrono::steady_clock::time_point> promised;  // and not led yet
    std::string key;                                                // claimed; empty until then
    std::function<void()> abandon;
  };
  Entry& FindOrAdd(const std::string& alias);          // REQUIRES: mutex_ held
  Entry* Find(const std::shared_ptr<Flight>& flight);  // REQUIRES: mutex_ held
  void Erase(const Entry& entry);                      // REQUIRES: mutex_ held

  std::mutex mutex_;                                       // no flight's lock is taken while it is held
  std::map<std::string, Entry> by_alias_;                  // guarded by mutex_
  std::map<std::string, std::shared_ptr<Flight>> by_key_;  // guarded by mutex_
};

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_INFLIGHT_TABLE_H_
