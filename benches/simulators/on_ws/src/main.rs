//! See `shared/command_line.rs`.

fn main() {
    on_ws::shared::main();
}
