<?php
// A stub of cheprasov/php-redis-lock of Packagist and its Redis client, see README.md.
namespace RedisClient {
    class RedisClient {
        public function __construct(private string $server, private float $timeout) {}

        public function ask(...$words): string {
            $s = @stream_socket_client($this->server, $code, $why, $this->timeout);
            if (!$s) throw new \RuntimeException("connect: $why");
            stream_set_timeout($s, 0, (int) ($this->timeout * 1e6));
            fwrite($s, '*' . count($words) . "\r\n" . implode('', array_map(fn($w) => '$' . strlen((string) $w) . "\r\n$w\r\n", $words)));
            $line = fgets($s);
            if ($line === false) throw new \RuntimeException('no answer');
            if ($line[0] === '$' && $line !== "$-1\r\n") $line = fgets($s);
            return trim($line);
        }
    }

    class ClientFactory {
        public static function create(array $config): RedisClient { return new RedisClient($config['server'], $config['timeout']); }
    }
}

namespace RedisLock\Exception {
    class LostLockException extends \Exception {}
}

namespace RedisLock {
    class RedisLock {
        const VERSION = 'stub';
        private string $token;

        public function __construct(private \RedisClient\RedisClient $redis, private string $key) { $this->token = bin2hex(random_bytes(16)); }

        private function own(string $call, ...$args): void {
            $script = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(' . $call . ') end return 0';
            if ($this->redis->ask('EVAL', $script, 1, $this->key, $this->token, ...$args) !== ':1') throw new Exception\LostLockException('it is lost');
        }

        public function acquire($lockTime): bool { return $this->redis->ask('SET', $this->key, $this->token, 'NX', 'PX', (int) ($lockTime * 1000)) === '+OK'; }
        public function update($lockTime): bool { $this->own('"pexpire",KEYS[1],ARGV[2]', (int) ($lockTime * 1000)); return true; }
        public function release(): bool { $this->own('"del",KEYS[1]'); return true; }
        public function isLocked(): bool { return $this->redis->ask('GET', $this->key) === $this->token; }
    }
}
