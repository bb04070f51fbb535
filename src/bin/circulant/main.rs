//! The program `circulant`.
fn main() {}
