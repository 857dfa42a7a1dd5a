//! Tests of exports by nsys.
