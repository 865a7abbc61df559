//! Random calls from several principals: whatever is thrown at the pipeline, these hold.
