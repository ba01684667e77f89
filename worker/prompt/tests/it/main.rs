//! The crate from outside: golden files for what a model reads, properties for what must hold for
//! any input.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod sample;
