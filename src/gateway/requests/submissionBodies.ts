import type { Refusal } from '../../routing/refusal.ts';
import type { BodyStart } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Least size up to which submissions are buffered (docs/protocol.md#safe-retry). */
const MIN_BUFFERED_BODY = 1_048_576;
/** Memory for each byte of a submission: pieces as they come, joined, as text, and what of these is not collected yet. */
const BYTES_PER_BYTE = 4;
/** The same where the external rules service gets the text: as JSON, encoded, and on its way. */
const BYTES_PER_BYTE_SENT = 6;

/** What bodies of submissions are read with. */
export interface SubmissionBodiesDependencies {
  readonly bodies: RequestBodies;
  readonly settings: Pick<DataPlaneSettings, 'maxAnalyzedBody' | 'maxBodySize'>;
  /** Whether a router sends the statement's text on. */
  readonly sendsText: boolean;
}

/** Reads bodies of submissions, as far as they are buffered. */
export class SubmissionBodies {
  readonly #dependencies: SubmissionBodiesDependencies;

  constructor(dependencies: SubmissionBodiesDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Reads the body of a submission.
   * @param next gets it, or its start where it is longer than what is buffered
   * @param refuse gets why it cannot be read
   */
  read({ request }: ProxiedRequest, next: (body: BodyStart) => void, refuse: (refusal: Refusal) => void): void {
    const { bodies, settings, sendsText } = this.#dependencies;
    const limit = Math.max(settings.maxAnalyzedBody, MIN_BUFFERED_BODY);
    const bytesPerByte = sendsText ? BYTES_PER_BYTE_SENT : BYTES_PER_BYTE;
    bodies.read(request, { limit, bytesPerByte }, next, (fault) =>
      refuse(bodyRefusal(fault, bodies, settings.maxBodySize)),
    );
  }
}
