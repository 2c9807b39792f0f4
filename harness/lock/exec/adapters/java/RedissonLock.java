import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisConnectionException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Locks of Redisson, by its first argument: watchdog, which renews until it is given back and tells its
 * holder nothing; lease, for the TTL; fair, for the TTL and in turn. Its locks are threads', and one that
 * a thread has it gets again: each hold here is by a thread number of its own.
 */
public final class RedissonLock {
    record Hold(RLock lock, long thread) { }

    static RedissonClient redisson;

    /**
     * The first answer may take longer than a node's time-out: most classes are loaded only then. Where the node
     * stays away the library connects when it is first asked for a lock, as it can be told to.
     */
    static RedissonClient connected(Config config) {
        for (int tries = 1; ; tries++) {
            try {
                return Redisson.create(config);
            } catch (RedisConnectionException e) {
                if (tries == 10) config.setLazyInitialization(true);
                if (tries > 10) throw e;
            }
        }
    }

    static long ttl, last;

    public static void main(String[] args) throws Exception {
        String kind = args.length > 0 ? args[0] : "lease";
        boolean watched = kind.equals("watchdog"), lease = kind.equals("lease");
        Map<String, Hold> held = new HashMap<>();
        ObjectNode hello = Lockpick.answer().put("name", "Redisson " + kind).put("version", RLock.class.getPackage().getImplementationVersion())
            .put("nodes", "one").put("retries", lease ? "driver" : "library").put("belief", lease ? "deadline" : "none");
        hello.putArray("can").add("held");
        Lockpick.serve(hello, Map.of(
            "open", m -> {
                JsonNode s = m.get("settings");
                ttl = s.get("ttl").asLong();
                Config config = new Config().setCodec(StringCodec.INSTANCE).setLockWatchdogTimeout(ttl);
                config.useSingleServer().setAddress("redis://" + m.get("nodes").get(0).get("addr").asText())
                    .setConnectionMinimumIdleSize(1).setConnectionPoolSize(4).setSubscriptionConnectionMinimumIdleSize(1)
                    .setTimeout(Math.max(1, s.get("timeout").asInt())).setRetryAttempts(0);
                redisson = connected(config);
                return Lockpick.answer().put("quorum", 1);
            },
            "acquire", m -> {
                String key = m.get("key").asText();
                Hold hold = new Hold(kind.equals("fair") ? redisson.getFairLock(key) : redisson.getLock(key), ++last);
                long began = System.nanoTime();
                return hold.lock.tryLockAsync(m.get("within").asLong(), watched ? -1 : ttl, TimeUnit.MILLISECONDS, hold.thread).thenApply(got -> {
                    if (!got) throw new Lockpick.No("taken", "");
                    String handle = "h" + hold.thread;
                    synchronized (held) { held.put(handle, hold); }
                    // It names no deadline: a caller that does not wait can reckon one from the call.
                    return (lease ? Lockpick.until(began, ttl) : Lockpick.answer()).put("handle", handle);
                });
            },
            "held", m -> {
                Hold hold;
                synchronized (held) { hold = held.get(m.get("handle").asText()); }
                return Lockpick.answer().put("held", hold.lock.isHeldByThread(hold.thread));
            },
            "release", m -> {
                Hold hold;
                synchronized (held) { hold = held.remove(m.get("handle").asText()); }
                return hold.lock.unlockAsync(hold.thread).handle((nothing, e) -> {
                    if (e instanceof IllegalMonitorStateException) throw new Lockpick.No("not-held", e.getMessage());
                    if (e != null) throw new Lockpick.No("unknown", e.toString());
                    return null;
                });
            }));
    }
}
