//! The adapter's end of the protocol in Rust: one JSON object per line. The library must print to stderr only.
use serde_json::{json, Value};
use std::io::{BufRead, Write};

/// An answer that isn't ok: taken, unknown, not-held, unsupported, or error for a failure of the library.
pub struct No(pub &'static str, pub String);

fn say(line: Value) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|_| out.flush()).expect("stdout");
}

fn clock(id: libc::clockid_t) -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub fn now() -> i64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Adds the deadline of a lease that began at an instant of now(), with the given length in milliseconds, to the answer.
pub fn until(mut answer: Value, began: i64, millis: f64) -> Value {
    answer["until"] = json!(began + (millis * 1e6) as i64);
    answer["clock"] = json!("monotonic");
    answer
}

fn refuse(id: Value, no: No) {
    say(json!({"id": id, "no": no.0, "why": no.1}))
}

/// Says hello and answers with the library in a separate thread, so that the reader always answers pings.
pub fn serve(mut hello: Value, ops: &[&str], mut library: impl FnMut(&str, &Value) -> Result<Value, No> + Send + 'static) {
    let (todo, asked) = std::sync::mpsc::channel::<Value>();
    std::thread::spawn(move || {
        for m in asked {
            match library(m["op"].as_str().unwrap_or(""), &m) {
                Err(no) => refuse(m["id"].clone(), no),
                Ok(mut answer) => {
                    answer["id"] = m["id"].clone();
                    answer["ok"] = json!(true);
                    say(answer);
                }
            }
        }
    });
    hello["hello"] = json!(1);
    say(hello);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let m: Value = serde_json::from_str(&line).expect("a request is a JSON object");
        let id = m["id"].clone();
        match m["op"].as_str().unwrap_or("") {
            "clock" => say(json!({"id": id, "ok": true, "monotonic": now(), "wall": clock(libc::CLOCK_REALTIME)})),
            "ping" => say(json!({"id": id, "pong": true})),
            "close" => {
                say(json!({"id": id, "ok": true}));
                break;
            }
            op if ops.contains(&op) => todo.send(m).expect("the library's thread has ended"),
            op => refuse(id, No("unsupported", op.to_string())),
        }
    }
    std::process::exit(0);
}
