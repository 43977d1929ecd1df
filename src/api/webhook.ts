import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { resourceKinds } from '../kinds/registry.ts';
import type { Resource } from '../model/resource.ts';
import type { KubeObject } from '../operator/sources/kubernetes/kubeApi.ts';
import { resourceOfObject } from '../operator/sources/kubernetes/kubeResource.ts';

/** An object of etcd has at most 1.5 MiB; a review has two versions of it. */
const MAX_BODY = 4 * 1024 * 1024;
const MAX_PENDING = 10;
const MAX_CONNECTIONS = 32;
/** Time of a request's head and body. The API server waits 2 s for the response. */
const REQUEST_TIMEOUT_MS = 2_000;
/** Time after which a rejected resource is reviewed again: what it needs may have been declared just before it. */
const RETRY_MS = 700;
/** Time between two reviews, which leaves the event loop to everything else. */
const PAUSE_MS = 30;

/** AdmissionReview (admission.k8s.io/v1), as far as it is read. */
interface AdmissionReview {
  readonly request: {
    readonly uid: string;
    readonly operation: string;
    readonly object?: (KubeObject & { readonly kind: string }) | null;
    readonly oldObject?: KubeObject | null;
  };
}

/**
 * Creates the server of the validating admission webhook (docs/resources.md#the-admission-webhook). It is not authenticated and only
 * reads: bodies, connections, waiting reviews and their time are bounded (docs/security.md).
 * @param rejection the reason that a resource would not be accepted, or null
 */
export function admissionWebhook(rejection: (resource: Resource) => string | null, logger: Logger): Server {
  let pending = 0;
  let turn: Promise<unknown> = Promise.resolve();
  const review = (text: string) => {
    const { request } = JSON.parse(text) as AdmissionReview;
    const resource = declaredBy(request);
    const message = resource === null ? null : rejection(resource);
    const status = message === null ? {} : { status: { code: 422, reason: 'Invalid', message } };
    const response = { uid: request.uid, allowed: message === null, ...status };
    return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response };
  };
  /** Reviews after the reviews before and a pause. */
  const inTurn = (text: string) => {
    const own = turn.then(() => review(text));
    const rest = () => pause(PAUSE_MS);
    turn = own.then(rest, rest);
    return own;
  };
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    pending += 1;
    try {
      const size = Number(request.headers['content-length']);
      const code = pending > MAX_PENDING ? 503 : size <= MAX_BODY ? 200 : 413;
      // The API server then admits the object (failurePolicy: Ignore).
      if (code !== 200) return void response.writeHead(code, { connection: 'close' }).end();
      const text = await textOf(request);
      let reviewed = await inTurn(text);
      if (!reviewed.response.allowed) {
        await pause(RETRY_MS);
        reviewed = await inTurn(text);
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reviewed));
    } catch (error) {
      logger.debug({ err: error }, 'admission review failed');
      if (!response.headersSent) response.writeHead(400, { connection: 'close' }).end();
    } finally {
      pending -= 1;
    }
  };
  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS, connectionsCheckingInterval: 500 },
    (request, response) => void serve(request, response),
  );
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

/** The resource of a request whose spec is new; null for deletions, unchanged specs and other kinds. */
function declaredBy({ operation, object, oldObject }: AdmissionReview['request']): Resource | null {
  if ((operation !== 'CREATE' && operation !== 'UPDATE') || object == null) return null;
  if (object.metadata.deletionTimestamp !== undefined || resourceKinds.find(object.kind) === null) return null;
  const isUnchanged = oldObject != null && isDeepStrictEqual(object.spec, oldObject.spec);
  return isUnchanged ? null : resourceOfObject(object.kind, object);
}
