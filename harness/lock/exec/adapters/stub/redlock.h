// A stub of jacket-code/redlock-cpp, see README.md.
#pragma once
#include <hiredis/hiredis.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace std; // as in the library

class CLock {
public:
  int m_validityTime = 0; // milliseconds
  char *m_resource = nullptr, *m_val = nullptr;
  ~CLock() {
    free(m_resource);
    free(m_val);
  }
};

class CRedLock {
public:
  virtual ~CRedLock() {
    for (redisContext *c : nodes) redisFree(c);
  }

  bool AddServerUrl(const char *ip, const int port) {
    nodes.push_back(redisConnectWithTimeout(ip, port, {1, 500000}));
    return true;
  }

  void SetRetry(const int, const int) {}

  bool Lock(const char *resource, const int ttl, CLock &lock) {
    return take(resource, ttl, lock, [&](redisContext *c) { return ask(c, "SET %s %s PX %d NX", resource, lock.m_val, ttl); });
  }

  bool ContinueLock(const char *resource, const int ttl, CLock &lock) {
    const char *script = "if redis.call('get',KEYS[1])==ARGV[1] then redis.call('del',KEYS[1]) end return redis.call('set',KEYS[1],ARGV[2],'px',ARGV[3],'nx')";
    bool took = take(resource, ttl, lock, [&](redisContext *c) { return ask(c, "EVAL %s 1 %s %s %s %d", script, resource, last.c_str(), lock.m_val, ttl); });
    last = lock.m_val;
    return took;
  }

  bool Unlock(const CLock &lock) {
    for (redisContext *&c : nodes) ask(c, "EVAL %s 1 %s %s", "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0", lock.m_resource, lock.m_val);
    return true;
  }

private:
  std::vector<redisContext *> nodes;
  std::string last = "-"; // the value that ContinueLock replaces

  template <typename... Args> static bool ask(redisContext *&c, const char *words, Args... args) {
    if (c->err) redisReconnect(c);
    auto *reply = static_cast<redisReply *>(redisCommand(c, words, args...));
    bool ok = reply && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0;
    if (reply) freeReplyObject(reply);
    return ok;
  }

  template <typename Ask> bool take(const char *resource, int ttl, CLock &lock, Ask ask) {
    const auto began = std::chrono::steady_clock::now();
    std::random_device dice;
    const std::string val = std::to_string(dice()) + "-" + std::to_string(dice());
    free(lock.m_resource);
    free(lock.m_val);
    lock.m_resource = strdup(resource);
    lock.m_val = strdup(val.c_str());
    printf("it asks for %s\n", resource); // as the library does, on stdout
    const auto votes = std::count_if(nodes.begin(), nodes.end(), ask);
    const auto passed = std::chrono::steady_clock::now() - began;
    lock.m_validityTime = ttl - int(std::chrono::duration_cast<std::chrono::milliseconds>(passed).count()) - int(ttl * 0.01) - 3;
    if (votes > long(nodes.size()) / 2 && lock.m_validityTime > 0) return true;
    Unlock(lock);
    return false;
  }
};
