//! temp
#![allow(clippy::all, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
use longhaul::config;
fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let args: Vec<String> = std::env::args().collect();
    let mut flags = vec![];
    let mut file = None;
    let mut i = 2;
    while i < args.len() {
        match args[i].as_str() {
            "--config" => file = Some(args[i + 1].clone()),
            "--data-dir" => flags.push(("data-dir", args[i + 1].clone())),
            "--listen" => flags.push(("listen", args[i + 1].clone())),
            "--workers" => flags.push(("workers", args[i + 1].clone())),
            x => panic!("{x}"),
        }
        i += 2;
    }
    let file = config::find(file.as_deref().map(std::path::Path::new)).unwrap();
    match config::read(&config::Written { file, environment: vec![], flags }) {
        Ok(c) => longhaul::cli::serve::run(c),
        Err(c) => {
            for x in c {
                eprintln!("{x:?}");
            }
            2.into()
        }
    }
}
