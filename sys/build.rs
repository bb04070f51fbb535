//! Nothing in a common build. With the feature `regenerate` it generates the declarations anew from the
//! headers of this machine, to `OUT_DIR/bindings.rs`; `ci/bindings` compares them with those committed.

#[cfg(not(feature = "regenerate"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}

#[cfg(feature = "regenerate")]
fn main() {
    println!("cargo::rerun-if-changed=wrapper.h");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    generate::bindings()
        .write_to_file(std::path::Path::new(&out).join("bindings.rs"))
        .expect("OUT_DIR is writable");
}

#[cfg(feature = "regenerate")]
mod generate {
    use bindgen::callbacks::{IntKind, ParseCallbacks};

    /// What is loaded by name; everything else goes through the tables of operations.
    const FUNCTIONS: &str = "fi_(getinfo|dupinfo|freeinfo|fabric|strerror|tostr|version)";
    const TYPES: &str = "fi_(info|context2|msg_rma|rma_iov|cq_attr|cq_data_entry|cq_err_entry|av_attr|fid_var|ops_.*)|fid_(fabric|domain|ep|av|cq|mr)";
    const CONSTANTS: &str = "FI_(E(AGAIN|INTR|INVAL|NODATA|NOMEM|NOSYS|TOOSMALL|AVAIL|CANCELED|CONN[A-Z]+|HOST[A-Z]+|NET[A-Z]+|NOTCONN|SHUTDOWN|TIMEDOUT|NOSPC|IO|REMOTEIO)|MAJOR_VERSION|MINOR_VERSION|RMA|WRITE|REMOTE_WRITE|TRANSMIT|RECV|REMOTE_CQ_DATA|COMPLETION|DELIVERY_COMPLETE|INJECT|SELECTIVE_COMPLETION|CONTEXT2?|MR_[A-Z_]+|SOCKADDR(_.*)?|FORMAT_UNSPEC|ENABLE|GETWAIT)";
    /// Constants of enumerations that `TYPES` does not reach.
    const ENUMERATIONS: &str = "fi_(av_type|threading|ep_type|wait_obj|cq_format|type)";

    /// Reached only through pointers, and never used: no need for their insides.
    const OPAQUE: &str = "fi_ops_(msg|poll|eq|cntr|wait)|fid_(eq|cntr|poll|wait|pep|stx|mc|nic)|fi_(eq|cntr|wait|poll|av_set)_attr|fi_eq_err_entry|fi_mr_attr";

    pub fn bindings() -> bindgen::Bindings {
        bindgen::Builder::default()
            .header("wrapper.h")
            .allowlist_function(FUNCTIONS)
            .allowlist_type(TYPES)
            .allowlist_type(ENUMERATIONS)
            .allowlist_var(CONSTANTS)
            .opaque_type(OPAQUE)
            .formatter(bindgen::Formatter::Prettyplease)
            .dynamic_library_name("Functions")
            .dynamic_link_require_all(true)
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .generate_comments(false)
            .parse_callbacks(Box::new(Widths))
            .rust_target(bindgen::RustTarget::stable(82, 0).expect("1.82 is known"))
            .generate()
            .expect("libfabric-dev 1.17 and libclang are installed")
    }

    /// Gives macros the width of the fields that they go into.
    #[derive(Debug)]
    struct Widths;

    impl ParseCallbacks for Widths {
        fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
            let signed = name.starts_with("FI_E") || name.starts_with("FI_MR_");
            Some(match name {
                "FI_MAJOR_VERSION" | "FI_MINOR_VERSION" => IntKind::U32,
                _ if signed => IntKind::Int,
                _ => IntKind::U64,
            })
        }
    }
}
