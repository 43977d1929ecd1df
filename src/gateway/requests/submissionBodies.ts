import type { Refusal } from '../../routing/refusal.ts';
import type { BodyStart } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Least size up to which submissions are buffered (docs/protocol.md#safe-retry). */
const MIN_BUFFERED_BODY = 1_048_576;

export interface SubmissionBodiesDependencies {
  readonly bodies: RequestBodies;
  readonly settings: Pick<DataPlaneSettings, 'maxAnalyzedBody' | 'maxBodySize'>;
}

export class SubmissionBodies {
  readonly #dependencies: SubmissionBodiesDependencies;

  constructor(dependencies: SubmissionBodiesDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Reads the body of a submission.
   * @param next gets it, or its start where it is longer than what is buffered
   * @param reject gets why it cannot be read
   */
  read(
    { request, response }: ProxiedRequest,
    next: (body: BodyStart) => void,
    refuse: (refusal: Refusal) => void,
  ): void {
    const { bodies, settings } = this.#dependencies;
    const { maxAnalyzedBody, maxBodySize } = settings;
    const limit = Math.max(maxAnalyzedBody, MIN_BUFFERED_BODY);
    bodies.read(request, response, limit, next, () =>
      refuse(bodyRefusal('request_memory', bodies.memory, maxBodySize)),
    );
  }
}
