//! A starter for an adapter: one key on one node, with SET NX PX and compare-and-delete. Replace the code
//! between the lines with your library, and adapt the answers below. See lockpick help adapter.
mod lockpick;
use lockpick::{now, until, No};
use redis::RedisError;
use serde_json::{json, Value};
use std::{collections::HashMap, time::Duration};

// ---- your library ----
struct OneKey {
    client: redis::Client,
    ttl: i64, // milliseconds, as margin
    margin: f64,
    timeout: Duration,
    drawn: u32,
}

const DEL: &str = r#"if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end return 0"#;
const PEXPIRE: &str = r#"if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) end return 0"#;

impl OneKey {
    /// ask sends a command on a new connection.
    fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, RedisError> {
        let mut node = self.client.get_connection_with_timeout(self.timeout)?;
        node.set_read_timeout(Some(self.timeout))?;
        node.set_write_timeout(Some(self.timeout))?;
        command.query(&mut node)
    }

    fn own(&self, script: &str, key: &str, token: &str) -> Result<bool, RedisError> {
        self.ask(redis::cmd("EVAL").arg(script).arg(1).arg(key).arg(token).arg(self.ttl))
    }

    fn lasts(&self) -> f64 {
        self.ttl as f64 - self.margin // counted from before the request
    }

    /// lock returns the key's value and the start of the lease.
    fn lock(&mut self, key: &str) -> Result<(String, i64), No> {
        let began = now();
        self.drawn += 1;
        let token = format!("{}-{}-{}", std::process::id(), began, self.drawn);
        let why = match self.ask::<Option<String>>(redis::cmd("SET").arg(key).arg(&token).arg("NX").arg("PX").arg(self.ttl)) {
            Ok(None) => return Err(No("taken", String::new())),
            Ok(_) if ((now() - began) as f64) < self.lasts() * 1e6 => return Ok((token, began)),
            Ok(_) => "the answer arrived too late".to_string(),
            Err(e) => e.to_string(),
        };
        let _ = self.own(DEL, key, &token); // the outcome is unknown, so the key may have been set
        Err(No("unknown", why))
    }
}
// ----------------------

fn held(yes: Result<bool, RedisError>) -> Result<(), No> {
    match yes {
        Ok(true) => Ok(()),
        Ok(false) => Err(No("not-held", String::new())),
        Err(e) => Err(No("error", e.to_string())),
    }
}

fn main() {
    let mut lock: Option<OneKey> = None;
    let mut keys: HashMap<String, String> = HashMap::new();
    let hello = json!({"name": "adapter", "version": "1", "can": ["extend"], "nodes": "one"});
    lockpick::serve(hello, &["open", "acquire", "extend", "release"], move |op, m: &Value| {
        if op == "open" {
            let s = &m["settings"];
            let client = redis::Client::open(format!("redis://{}/", m["nodes"][0]["addr"].as_str().unwrap_or(""))).map_err(|e| No("error", e.to_string()))?;
            let ttl = s["ttl"].as_f64().unwrap_or(0.0);
            let timeout = Duration::from_secs_f64(s["timeout"].as_f64().unwrap_or(0.0).max(1.0) / 1e3);
            lock = Some(OneKey { client, ttl: ttl as i64, margin: ttl * s["drift"].as_f64().unwrap_or(0.0) + 2.0, timeout, drawn: 0 });
            return Ok(json!({"quorum": 1}));
        }
        let lock = lock.as_mut().ok_or(No("error", "not open".into()))?;
        let handle = m["handle"].as_str().unwrap_or("");
        match op {
            "acquire" => {
                let key = m["key"].as_str().unwrap_or("");
                let (token, began) = lock.lock(key)?;
                keys.insert(token.clone(), key.to_string());
                Ok(until(json!({"handle": token, "token": token}), began, lock.lasts()))
            }
            "extend" => {
                let began = now();
                held(lock.own(PEXPIRE, &keys[handle], handle))?;
                Ok(until(json!({}), began, lock.lasts()))
            }
            _ => held(lock.own(DEL, &keys[handle], handle)).map(|_| json!({})),
        }
    });
}
