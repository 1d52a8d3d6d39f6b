//! Every test of the laboratory from outside, as one program.

mod presets;
mod theory;
