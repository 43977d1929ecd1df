import { type ServerResponse, validateHeaderValue } from 'node:http';

/** RFC 9112 §4 also allows tabs and bytes beyond ASCII, which have no known encoding. */
const printableAscii = /^[\x20-\x7e]*$/;

/** The head of a cluster's response cannot be sent to a client. */
class UnusableHead extends Error {}

/**
 * Writes the head of a cluster's response to the client.
 * @param statusText reason phrase of the cluster; default: the standard one
 * @param lines names and values in turn
 * @throws UnusableHead and Node's own errors if the head cannot be sent. The response is unchanged then, so that
 * another head can be written.
 */
export function writeClusterHead(
  response: ServerResponse,
  status: number,
  statusText: string | undefined,
  lines: string[],
): void {
  const isStandard = statusText === undefined || statusText === '';
  if (!isStandard && !printableAscii.test(statusText)) {
    throw new UnusableHead(`The reason phrase of status ${status} has characters outside printable ASCII`);
  }
  // Node determines that these have no body before it reads the headers, and never reverts that.
  if (status === 204 || status === 304) {
    for (let index = 0; index < lines.length; index += 2) {
      validateHeaderValue(lines[index] as string, lines[index + 1] as string);
    }
  }
  try {
    if (isStandard) response.writeHead(status, lines);
    else response.writeHead(status, statusText, lines);
  } catch (error) {
    if (!response.headersSent) {
      if (response.req.httpVersionMajor === 1) response.statusMessage = '';
      for (const name of response.getHeaderNames()) response.removeHeader(name);
    }
    throw error;
  }
}
