//! Says what to install where hwloc is missing, as the linker's own words would not.

use std::process::Command;

const HWLOC: &str = "libhwloc.so";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBRARY_PATH");
    if std::env::var_os("CARGO_FEATURE_HWLOC").is_some() && is_missing(HWLOC) {
        println!(
            "cargo::warning=hwloc is not found by cc; if it cannot be linked: apt-get install libhwloc-dev \
             (Fedora: hwloc-devel), or do without: cargo build --no-default-features"
        );
        // There is no such file in this folder, so that cargo asks again next time.
        println!("cargo::rerun-if-changed={HWLOC}");
    }
}

/// A C compiler gives back the bare name of what it does not find. Without one nothing can be told.
fn is_missing(library: &str) -> bool {
    let answer = Command::new("cc").arg(format!("-print-file-name={library}")).output();
    answer.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim() == library)
}
