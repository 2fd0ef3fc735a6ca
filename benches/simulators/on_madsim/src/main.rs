//! See `shared/command_line.rs`.

fn main() {
    on_madsim::shared::main();
}
