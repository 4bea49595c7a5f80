// SPDX-License-Identifier: LGPL-2.1-or-later

// A chain of calls in the main thread, and one in a thread of the standard library's.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(never)]
#[no_mangle]
extern "C" fn rust_leaf(mut x: u64) -> u64 {
    for _ in 0..500_000 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    }
    black_box(x)
}

#[inline(never)]
#[no_mangle]
extern "C" fn rust_inner(x: u64) -> u64 {
    black_box(rust_leaf(x)).wrapping_add(1)
}

#[inline(never)]
#[no_mangle]
extern "C" fn rust_repeat(seconds: f64) -> u64 {
    let begin = Instant::now();
    let mut x = 1;

    while begin.elapsed().as_secs_f64() < seconds {
        x = black_box(rust_inner(x));
    }
    x
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).expect("CPU-SECONDS");

    std::thread::sleep(Duration::from_millis(300));
    let x = std::thread::spawn(move || rust_repeat(seconds / 2.0)).join().unwrap();
    std::process::exit(if x.wrapping_add(rust_repeat(seconds / 2.0)) == 42 { 3 } else { 0 });
}
