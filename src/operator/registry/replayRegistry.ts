import { readFile } from 'node:fs/promises';
import type { Findings } from '../../kinds/outcome.ts';
import { isReplayOutcome, progressOf, queryReplay, type ReplayOutcome } from '../../kinds/queryReplay/kind.ts';
import { QUERY_REPLAY, type QueryReplaySpec } from '../../kinds/queryReplay/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyText } from '../../model/resource.ts';
import type { ReplayPlan, ReplayProgress } from '../../replay/replayJobs.ts';
import type { RunAccount, RunCluster } from '../../replay/statementRuns.ts';
import type { SecretCredentials } from '../sources/kubernetes/referencedObjects.ts';
import {
  type DeclaredResource,
  declaredResource,
  mustBeGranted,
  type ResourceWrites,
  type SpecWrite,
  type SpecWriteContext,
  specVersion,
} from './resourceWrites.ts';

/** A replay as REST lists it. */
export interface InventoryReplay {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
  /** True if it is accepted. */
  readonly inForce: boolean;
  readonly message: string;
  readonly version: string;
  readonly resource: DeclaredResource;
  readonly progress: ReplayProgress | null;
}

const MAX_PASSWORD = 4_096;

/** Replays as REST lists and changes them, and as they run (docs/replay.md). */
export class ReplayRegistry {
  readonly #writes: ResourceWrites;
  readonly #credentials: SecretCredentials | undefined;
  readonly #findings: Findings;

  /** @param credentials reads Secrets; undefined without Kubernetes */
  constructor(writes: ResourceWrites, credentials: SecretCredentials | undefined, findings: Findings) {
    this.#writes = writes;
    this.#credentials = credentials;
    this.#findings = findings;
  }

  /** Notes the progress of a replay, for its status and for REST. */
  note({ namespace, name }: ReplayPlan, progress: ReplayProgress): void {
    this.#writes.controller.reportReplay(keyText({ kind: QUERY_REPLAY, namespace, name }), progress);
  }

  /** All replays, by namespace and name. */
  list(): readonly InventoryReplay[] {
    return this.#outcomes()
      .map((outcome) => this.#inventory(outcome))
      .sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
  }

  /** A replay, or null. */
  find(namespace: string, name: string): InventoryReplay | null {
    const outcome = this.#outcome(namespace, name);
    return outcome === null ? null : this.#inventory(outcome);
  }

  /** Accepted replays, the oldest first. */
  plans(): readonly ReplayPlan[] {
    const created = ({ resource }: ReplayOutcome) => resource.metadata.creationTimestamp;
    const outcomes = this.#outcomes().sort((a, b) => (created(a) < created(b) ? -1 : 1));
    return outcomes.flatMap(({ plan }) => (plan === null ? [] : [plan]));
  }

  /** Uids of all replays; null: the source has not been read. */
  uids(): ReadonlySet<string> | null {
    const { isFromSource } = this.#writes.controller;
    return isFromSource ? new Set(this.#outcomes().map(({ resource }) => resource.metadata.uid)) : null;
  }

  /** The account of a replay, or the reason that its clusters do not get it. */
  async account({ namespace, name }: ReplayPlan, clusters: readonly RunCluster[]): Promise<RunAccount | string> {
    const outcome = this.#outcome(namespace, name);
    if (outcome === null || outcome.plan === null) return 'the replay changed';
    const { references, resource } = outcome;
    if (references.status !== 'True') return references.message;
    const { replayAs } = resource.spec as QueryReplaySpec;
    const { credentialsSecretRef, username = '', password, impersonate: impersonates = false } = replayAs;
    if (credentialsSecretRef === undefined) {
      const text = password === undefined ? '' : await this.#passwordOf(password);
      return text === null
        ? `the file of spec.replayAs.password cannot be read: ${password}`
        : { username, password: text, impersonates };
    }
    if (this.#credentials === undefined) {
      return 'spec.replayAs.credentialsSecretRef needs resources.source: kubernetes; use username and password';
    }
    let account: RunAccount | string = 'the replay has no clusters';
    for (const { proxyTo } of clusters) {
      const notGranted = this.#writes.controller.tenancy.hostRejection(namespace, proxyTo);
      const credentials = await this.#credentials.of(resource, 'replayAs', proxyTo, notGranted);
      if (credentials?.ok !== true) return credentials?.message ?? 'the replay changed';
      account = { username: credentials.username, password: credentials.password, impersonates };
    }
    return account;
  }

  /** Declares a replay. @param spec valid */
  async put(namespace: string, name: string, spec: QueryReplaySpec, context: SpecWriteContext): Promise<SpecWrite> {
    this.#writes.controller.refreshNow();
    mustBeGranted(this.#writes.controller.tenancy.decidesRejection(namespace));
    const { replayAs } = (this.#outcome(namespace, name)?.resource.spec ?? {}) as Partial<QueryReplaySpec>;
    // Else a caller could send any file of the gateway to a cluster.
    if (spec.replayAs.password !== replayAs?.password)
      throw new GatewayError('EG_MALFORMED', 'replayAs.password can be set in a manifest only', {
        field: 'replayAs.password',
      });
    return await this.#writes.put(queryReplay, { kind: QUERY_REPLAY, namespace, name }, spec, context);
  }

  async delete(namespace: string, name: string, version: string | undefined): Promise<SpecWrite> {
    return await this.#writes.delete(queryReplay, { kind: QUERY_REPLAY, namespace, name }, version);
  }

  #outcomes(): ReplayOutcome[] {
    return [...this.#writes.controller.outcomesOf(QUERY_REPLAY)].filter(isReplayOutcome);
  }

  #outcome(namespace: string, name: string): ReplayOutcome | null {
    const outcome = this.#writes.controller.outcomes.get(keyText({ kind: QUERY_REPLAY, namespace, name }));
    return outcome === undefined || !isReplayOutcome(outcome) ? null : outcome;
  }

  #inventory(outcome: ReplayOutcome): InventoryReplay {
    const { resource, acceptance, references } = outcome;
    const { namespace, name, uid } = resource.metadata;
    const { gatewayClassName: _class, ...spec } = resource.spec;
    const inForce = acceptance.status === 'True';
    const { message } = inForce && references.status === 'False' ? references : acceptance;
    return {
      ...{ uid, namespace, name, spec, inForce, message, progress: progressOf(outcome, this.#findings) },
      version: specVersion(this.#writes.source.get(keyOf(resource)) ?? resource),
      resource: declaredResource(outcome, this.#writes.source),
    };
  }

  /** Reads the file of `${FILE:/path}`, which only manifests of a directory may name; null: it cannot be read. */
  async #passwordOf(text: string): Promise<string | null> {
    if (this.#writes.source.name !== 'directory') return null;
    const path = text.slice('${FILE:'.length, -1);
    return await readFile(path, 'utf8').then(
      (content) => content.slice(0, MAX_PASSWORD).trimEnd(),
      () => null,
    );
  }
}
