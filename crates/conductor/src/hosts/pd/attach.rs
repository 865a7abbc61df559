//! An attached Pd.
