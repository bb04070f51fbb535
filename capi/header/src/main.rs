//! Prints the C header, as the source has it.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let package = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"))?;
    let header = cbindgen::Builder::new().with_crate(package).with_config(config).generate()?;
    header.write(std::io::stdout());
    Ok(())
}
