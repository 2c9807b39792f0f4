import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisConnectionException;
import org.redisson.client.RedisException;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/**
 * Locks of Redisson, selected by the first argument: watchdog renews until the lock is released and never
 * notifies its holder; lease lasts for the TTL; fair lasts for the TTL and serves waiting clients in order.
 *
 * A lock belongs to a thread, which can reacquire it: after an acquire whose reply was lost, the next one
 * increases the hold count to 2, and a single unlock leaves the key. Here a client is a single thread. With
 * threads=each it uses a new thread for each acquire, as in a thread pool.
 *
 * Redisson keeps its defaults: a timeout of several seconds, and some retries. With driver=bounded it has the
 * scenario's timeout and no retries.
 */
public final class RedissonLock {
    record Hold(RLock lock, ExecutorService thread) { }

    /**
     * Connects within five seconds, retrying if a timeout of milliseconds is too short for the first answer. If
     * the node stays unreachable, the library is configured to connect when the first lock is requested.
     */
    static RedissonClient connected(JsonNode m) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
        CompletableFuture<RedissonClient> now = CompletableFuture.supplyAsync(() -> {
            for (;;) {
                try {
                    return Redisson.create(config(m));
                } catch (RedisConnectionException e) {
                    if (System.nanoTime() > end) throw e;
                }
            }
        });
        try {
            return now.get(5, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException e) {
            now.thenAccept(RedissonClient::shutdown); // if it connects later
            return Redisson.create(config(m).setLazyInitialization(true));
        }
    }

    static Config config(JsonNode m) {
        JsonNode s = m.get("settings");
        Config config = new Config().setLockWatchdogTimeout(s.get("ttl").asLong());
        SingleServerConfig server = config.useSingleServer().setAddress("redis://" + m.get("nodes").get(0).get("addr").asText());
        if (m.path("options").path("driver").asText().equals("bounded")) server.setTimeout(Math.max(1, s.get("timeout").asInt())).setRetryAttempts(0);
        return config;
    }

    /**
     * Loads most classes before hello, which has a longer time limit than open, by requesting a lock from a
     * port without a server.
     */
    static void warmUp() {
        Config config = new Config().setLazyInitialization(true);
        config.useSingleServer().setAddress("redis://127.0.0.1:1").setRetryAttempts(0);
        RedissonClient nowhere = Redisson.create(config);
        try {
            nowhere.getLock("").tryLock();
        } catch (RedisException e) {
            // the connection is refused
        } finally {
            nowhere.shutdown(0, 0, TimeUnit.MILLISECONDS);
        }
    }

    /** The result of a call on a thread. */
    static <T> T by(ExecutorService thread, Callable<T> what) throws Exception {
        try {
            return thread.submit(what).get();
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    static ObjectNode hello(String kind) {
        boolean lease = kind.equals("lease");
        ObjectNode hello = Lockpick.answer().put("name", "Redisson " + kind).put("version", RLock.class.getPackage().getImplementationVersion())
            .put("nodes", "one").put("retries", lease ? "driver" : "library").put("belief", lease ? "deadline" : "none");
        hello.putArray("can").add("held");
        ObjectNode driver = hello.putArray("options").addObject(), threads = hello.withArray("options").addObject();
        driver.put("name", "driver").put("doc", "Redisson: its default, or the scenario's timeout and no retries").putArray("values").add("defaults").add("bounded");
        threads.put("name", "threads").put("doc", "one thread per client, or a new thread for each acquire").putArray("values").add("one").add("each");
        return hello;
    }

    static RedissonClient redisson;
    static long ttl, last;
    static ExecutorService one = Executors.newSingleThreadExecutor();
    static boolean each;

    public static void main(String[] args) throws Exception {
        String kind = args.length > 0 ? args[0] : "lease";
        boolean watched = kind.equals("watchdog"), lease = kind.equals("lease");
        Map<String, Hold> held = new HashMap<>();
        warmUp();
        Lockpick.serve(hello(kind), Map.of(
            "open", m -> {
                ttl = m.get("settings").get("ttl").asLong();
                each = m.path("options").path("threads").asText().equals("each");
                redisson = connected(m);
                return Lockpick.answer().put("quorum", 1);
            },
            "acquire", m -> {
                String key = m.get("key").asText();
                Hold hold = new Hold(kind.equals("fair") ? redisson.getFairLock(key) : redisson.getLock(key), each ? Executors.newSingleThreadExecutor() : one);
                long began = System.nanoTime();
                if (!by(hold.thread, () -> hold.lock.tryLock(m.get("within").asLong(), watched ? -1 : ttl, TimeUnit.MILLISECONDS))) {
                    if (each) hold.thread.shutdown();
                    throw new Lockpick.No("taken", "");
                }
                String handle = "h" + ++last;
                held.put(handle, hold);
                // It reports no deadline. A caller that does not wait can compute one from the time of the call.
                return (lease ? Lockpick.until(began, ttl) : Lockpick.answer()).put("handle", handle);
            },
            "held", m -> {
                Hold hold = held.get(m.get("handle").asText());
                return Lockpick.answer().put("held", by(hold.thread, hold.lock::isHeldByCurrentThread));
            },
            "release", m -> {
                Hold hold = held.remove(m.get("handle").asText());
                try {
                    return by(hold.thread, () -> { hold.lock.unlock(); return null; });
                } catch (IllegalMonitorStateException e) {
                    throw new Lockpick.No("not-held", e.getMessage());
                } catch (Exception e) {
                    throw new Lockpick.No("unknown", e.toString());
                } finally {
                    if (each) hold.thread.shutdown();
                }
            }));
    }
}
