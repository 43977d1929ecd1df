import type { Refusal } from '../../routing/refusal.ts';

/** Why the body of a request is rejected. */
export type BodyFault = 'request_memory' | 'body_too_large';

/**
 * The refusal of a request for its body.
 * @param memory `server.requestMemory`, bytes
 * @param maxBodySize `server.maxBodySize`, bytes
 */
export function bodyRefusal(reason: BodyFault, memory: number, maxBodySize: number): Refusal {
  const message =
    reason === 'request_memory'
      ? memoryMessage(memory)
      : `The body is larger than ${maxBodySize} bytes (server.maxBodySize).`;
  return { reason, message, queryId: null };
}

/**
 * The message for a client if there is no memory for its body.
 * @param memory `server.requestMemory`, bytes
 */
export function memoryMessage(memory: number): string {
  return `Other requests take the ${Math.floor(memory)} bytes that there are for bodies (server.requestMemory); send the request again in a second.`;
}
