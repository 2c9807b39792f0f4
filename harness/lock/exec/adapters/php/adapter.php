<?php
// An adapter to start from: a key on one node, SET NX PX, and compare and delete. Put your library in
// the place of what is between the lines, and its answers into those below: lockpick help adapter.
require __DIR__ . '/lockpick.php';
use Lockpick\No;

// ---- your library ----
const IF_OWN = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(%s) end return 0';

// One key on a node; times in milliseconds.
class OneKey {
    public function __construct(private string $addr, private int $ttl, private float $timeout, private float $margin) {}

    // ask sends a command, on a connection of its own, and returns the line that is answered.
    private function ask(...$words): string {
        $s = @stream_socket_client("tcp://$this->addr", $code, $why, $this->timeout / 1e3);
        if (!$s) throw new RuntimeException("connect: $why");
        stream_set_timeout($s, 0, (int) ($this->timeout * 1e3));
        fwrite($s, '*' . count($words) . "\r\n" . implode('', array_map(fn($w) => '$' . strlen((string) $w) . "\r\n$w\r\n", $words)));
        $line = fgets($s);
        fclose($s);
        if ($line === false || !str_ends_with($line, "\n")) throw new RuntimeException("no answer for $this->timeout ms");
        return trim($line);
    }

    private function own(string $call, string $key, string $token, ...$args): bool {
        return $this->ask('EVAL', sprintf(IF_OWN, $call), 1, $key, $token, ...$args) === ':1';
    }

    private function lease(int $began): array { return Lockpick\until($began, $this->ttl - $this->margin); } // reckoned from before the node was asked

    public function lock(string $key): ?array {
        $began = Lockpick\now();
        $token = bin2hex(random_bytes(20));
        try {
            if ($this->ask('SET', $key, $token, 'NX', 'PX', $this->ttl) !== '+OK') return null;
            if (Lockpick\now() >= $this->lease($began)['until']) throw new RuntimeException('the answer came too late');
        } catch (RuntimeException $e) {
            try { $this->unlock($key, $token); } catch (RuntimeException) {} // it may have been set, though nobody knows
            throw $e;
        }
        return ['handle' => $token, 'token' => $token] + $this->lease($began);
    }

    public function extend(string $key, string $token): ?array {
        $began = Lockpick\now();
        return $this->own('"pexpire",KEYS[1],ARGV[2]', $key, $token, $this->ttl) ? $this->lease($began) : null;
    }

    public function unlock(string $key, string $token): bool { return $this->own('"del",KEYS[1]', $key, $token); }
}
// ----------------------

$lib = null;
$held = [];
Lockpick\serve(['name' => 'adapter', 'version' => '1', 'can' => ['extend'], 'nodes' => 'one'], [
    'open' => function ($m) use (&$lib) {
        $s = $m['settings'];
        $lib = new OneKey($m['nodes'][0]['addr'], (int) $s['ttl'], $s['timeout'], $s['ttl'] * $s['drift'] + 2);
        return ['quorum' => 1];
    },
    'acquire' => function ($m) use (&$lib, &$held) {
        try {
            $got = $lib->lock($m['key']) ?? throw new No('taken');
        } catch (RuntimeException $e) {
            throw new No('unknown', $e->getMessage());
        }
        $held[$got['handle']] = $m['key'];
        return $got;
    },
    'extend' => fn($m) => $lib->extend($held[$m['handle']], $m['handle']) ?? throw new No('not-held'),
    'release' => fn($m) => $lib->unlock($held[$m['handle']], $m['handle']) ? [] : throw new No('not-held'),
]);
