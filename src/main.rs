//! The `longhaul` program: everything is in the library.

fn main() -> std::process::ExitCode {
    longhaul::cli::main()
}
