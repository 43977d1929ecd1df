import type { Refusal } from '../../routing/refusal.ts';
import type { RelayFault } from './bodyRelay.ts';
import type { BodyFault, RequestBodies } from './requestBodies.ts';

/**
 * The refusal of a request for its body.
 * @param maxBodySize `server.maxBodySize`, bytes
 */
export function bodyRefusal(fault: BodyFault | RelayFault, bodies: RequestBodies, maxBodySize: number): Refusal {
  return { reason: fault, message: messageOf(fault, bodies, maxBodySize), queryId: null };
}

function messageOf(fault: BodyFault | RelayFault, bodies: RequestBodies, maxBodySize: number): string {
  switch (fault) {
    case 'request_memory':
      return memoryMessage(bodies.memory);
    case 'body_too_slow':
      return slowMessage(bodies);
    case 'body_too_large':
      return `The body is larger than ${maxBodySize} bytes (server.maxBodySize).`;
  }
}

/** What a client reads whose body came too slowly. */
export function slowMessage({ minRate }: Pick<RequestBodies, 'minRate'>): string {
  return `The body came at less than ${minRate} bytes a second (server.minBodyRate).`;
}

/**
 * What a client reads whose body or head there is no memory for.
 * @param limit `server.requestMemory`, bytes
 */
export function memoryMessage(limit: number): string {
  return `Other requests take the ${Math.floor(limit)} bytes that there are for bodies and large headers (server.requestMemory); send the request again in a second.`;
}
