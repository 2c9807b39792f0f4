//! rslock of crates.io, hexcowboy/rslock
//!
//! The library keeps its defaults, three tries of an acquire or an extension. With retries=none there is one,
//! and lockpick retries.
//!
//! Each of its errors is an unknown outcome: it counts a failed node as one that refuses, and discards the error.
#[path = "../lockpick.rs"]
mod lockpick;
use lockpick::{now, until, No};
use rslock::{Lock, LockError, LockManager};
use serde_json::{json, Value};
use std::{collections::HashMap, time::Duration};

fn refused(e: LockError) -> No {
    No(if matches!(e, LockError::Unavailable | LockError::TtlExceeded) { "unknown" } else { "error" }, e.to_string())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (mut library, mut ttl): (Option<LockManager>, f64) = (None, 0.0);
    let mut held: HashMap<String, Lock> = HashMap::new();
    let mut last = 0;
    let hello = json!({"name": "rslock", "version": env!("CARGO_PKG_VERSION"), "can": ["extend"],
        "options": [{"name": "retries", "values": ["defaults", "none"], "doc": "the library's own tries: its default, or one"}]});
    lockpick::serve(hello, &["open", "acquire", "extend", "release"], move |op, m: &Value| {
        let lasts = Duration::from_millis(ttl as u64);
        // Its validity is the time left when it returns, whichever try succeeded.
        let lease = |answer, lock: &Lock| until(answer, now(), lock.validity_time as f64);
        if op == "open" {
            ttl = m["settings"]["ttl"].as_f64().unwrap_or(0.0);
            let nodes: Vec<String> = m["nodes"].as_array().into_iter().flatten().map(|n| format!("redis://{}/", n["addr"].as_str().unwrap_or(""))).collect();
            let quorum = nodes.len() / 2 + 1;
            let mut l = LockManager::new(nodes);
            if m["options"]["retries"] == "none" {
                l.set_retry(1, Duration::from_millis(1));
            }
            library = Some(l);
            return Ok(json!({"quorum": quorum}));
        }
        let library = library.as_ref().ok_or(No("error", "not open".into()))?;
        let handle = m["handle"].as_str().unwrap_or("").to_string();
        match op {
            "acquire" => {
                let lock = runtime.block_on(library.lock(m["key"].as_str().unwrap_or("").as_bytes(), lasts)).map_err(refused)?;
                last += 1;
                let handle = format!("h{last}");
                let token: String = lock.val.iter().map(|b| format!("{b:02x}")).collect();
                let answer = lease(json!({"handle": handle, "token": token}), &lock);
                held.insert(handle, lock);
                Ok(answer)
            }
            "extend" => {
                let lock = runtime.block_on(library.extend(&held[&handle], lasts)).map_err(refused)?;
                let answer = lease(json!({}), &lock);
                held.insert(handle, lock);
                Ok(answer)
            }
            _ => {
                let lock = held.remove(&handle).ok_or(No("error", "no such handle".into()))?;
                runtime.block_on(library.unlock(&lock));
                Err(No("unknown", "the library doesn't report whether it was still held".into()))
            }
        }
    });
}
