//! Gives the shared library the name that programs remember it by: it changes when the ABI does.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcirculant.so.0");
}
