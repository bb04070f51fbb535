//! Says what to install where hwloc is missing, before the linker says in its own way that it is.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBRARY_PATH");
    let wanted = std::env::var_os("CARGO_FEATURE_HWLOC").is_some();
    if wanted && is_missing("libhwloc.so") {
        println!(
            "cargo::warning=hwloc is not found by cc; if it cannot be linked: apt-get install libhwloc-dev \
             (Fedora: hwloc-devel), or do without: cargo build --no-default-features"
        );
    }
}

/// A C compiler gives back the bare name of what it does not find. Without one nothing can be told.
fn is_missing(library: &str) -> bool {
    let answer = Command::new("cc").arg(format!("-print-file-name={library}")).output();
    answer.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim() == library)
}
