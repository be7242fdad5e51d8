-- Who follows one pipeline does not walk over the commits of all others.
CREATE INDEX commit_pipeline ON headgate.commit (pipeline, pos);
