/** A file of the release and its SHA-256, in hexadecimal digits. */
export interface Artifact {
  readonly name: string;
  readonly sha256: string;
}

/** What a release was built from, where and when. */
export interface Origin {
  /** URL of the repository, as `git+https://…`; null where it has no remote. */
  readonly repository: string | null;
  /** Full id of the commit. */
  readonly revision: string;
  /** URI of who ran the build: a CI job, or what `--builder` says. */
  readonly builder: string;
  readonly startedOn: Date;
  readonly finishedOn: Date;
  readonly version: string;
  /** Digest of package-lock.json, which pins every package. */
  readonly lockFile: Artifact;
}

/**
 * Provenance of a release: an in-toto statement with a SLSA predicate (https://slsa.dev/spec/v1.0/provenance). It is not signed:
 * `cosign attest-blob` or the CI's own attestation signs it.
 */
export function provenance(artifacts: readonly Artifact[], origin: Origin): object {
  const { repository, revision, builder, startedOn, finishedOn, version, lockFile } = origin;
  const source = repository === null ? { name: 'source' } : { uri: repository };
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: artifacts.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'https://enginegateway.dev/release/v1',
        externalParameters: { version, command: 'npm run release' },
        resolvedDependencies: [
          { ...source, digest: { gitCommit: revision } },
          { name: lockFile.name, digest: { sha256: lockFile.sha256 } },
        ],
      },
      runDetails: {
        builder: { id: builder },
        metadata: { startedOn: startedOn.toISOString(), finishedOn: finishedOn.toISOString() },
      },
    },
  };
}
