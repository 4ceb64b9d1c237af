//! Publications that are interrupted, and tables that are wrong.
