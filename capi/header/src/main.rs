//! Prints the C header, as the source has it.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let package = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"))?;
    let header = cbindgen::Builder::new().with_crate(package).with_config(config).generate()?;
    let mut text = Vec::new();
    header.write(&mut text);
    String::from_utf8(text)?.lines().for_each(|line| println!("{}", in_brackets(line)));
    Ok(())
}

/// A line in which a number below zero is one operand wherever the macro stands.
fn in_brackets(line: &str) -> String {
    match line.strip_prefix("#define ").and_then(|rest| rest.split_once(' ')) {
        Some((name, number)) if number.starts_with('-') => format!("#define {name} ({number})"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::in_brackets;

    #[test]
    fn only_numbers_below_zero_get_brackets() {
        assert_eq!(in_brackets("#define CIRCULANT_NONE -1"), "#define CIRCULANT_NONE (-1)");
        for line in ["#define CIRCULANT_OK 0", "#define CIRCULANT_X(n) (CIRCULANT_Y - (n))", "// one -1"] {
            assert_eq!(in_brackets(line), line);
        }
    }
}
