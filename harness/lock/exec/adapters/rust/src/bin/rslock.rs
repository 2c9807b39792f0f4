//! rslock of crates.io, hexcowboy/rslock
#[path = "../lockpick.rs"]
mod lockpick;
use lockpick::{now, until, No};
use rslock::{Lock, LockError, LockManager};
use serde_json::{json, Value};
use std::{collections::HashMap, time::Duration};

fn refused(e: LockError) -> No {
    // Of an attempt that fails it says the same whether others have the lock or nobody answers.
    No(if matches!(e, LockError::Unavailable | LockError::TtlExceeded) { "taken" } else { "error" }, e.to_string())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (mut library, mut ttl): (Option<LockManager>, f64) = (None, 0.0);
    let mut held: HashMap<String, Lock> = HashMap::new();
    let mut last = 0;
    let hello = json!({"name": "rslock", "version": env!("CARGO_PKG_VERSION"), "can": ["extend"]});
    lockpick::serve(hello, &["open", "acquire", "extend", "release"], move |op, m: &Value| {
        let lasts = Duration::from_millis(ttl as u64);
        // Its validity is what is left from then on; it is reckoned here from before the nodes were asked.
        let lease = |answer, began| until(answer, began, ttl - (ttl * 0.01).floor() - 2.0);
        if op == "open" {
            ttl = m["settings"]["ttl"].as_f64().unwrap_or(0.0);
            let nodes: Vec<String> = m["nodes"].as_array().into_iter().flatten().map(|n| format!("redis://{}/", n["addr"].as_str().unwrap_or(""))).collect();
            let quorum = nodes.len() / 2 + 1;
            let mut l = LockManager::new(nodes);
            l.set_retry(1, Duration::from_millis(1));
            library = Some(l);
            return Ok(json!({"quorum": quorum}));
        }
        let library = library.as_ref().ok_or(No("error", "not open".into()))?;
        let handle = m["handle"].as_str().unwrap_or("").to_string();
        let began = now();
        match op {
            "acquire" => {
                let lock = runtime.block_on(library.lock(m["key"].as_str().unwrap_or("").as_bytes(), lasts)).map_err(refused)?;
                last += 1;
                let handle = format!("h{last}");
                let token: String = lock.val.iter().map(|b| format!("{b:02x}")).collect();
                held.insert(handle.clone(), lock);
                Ok(lease(json!({"handle": handle, "token": token}), began))
            }
            "extend" => {
                let lock = runtime.block_on(library.extend(&held[&handle], lasts)).map_err(|e| No("not-held", e.to_string()))?;
                held.insert(handle, lock);
                Ok(lease(json!({}), began))
            }
            _ => {
                let lock = held.remove(&handle).ok_or(No("error", "no such handle".into()))?;
                runtime.block_on(library.unlock(&lock));
                Err(No("unknown", "it doesn't say whether it was still held".into()))
            }
        }
    });
}
