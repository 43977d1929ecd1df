import { X509Certificate } from 'node:crypto';
import { PatchStrategy } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { selfSignedCertificate } from '../../model/selfSignedCertificate.ts';
import type { Leadership } from '../leadership/leadership.ts';
import { type KubeApi, kubePath } from '../sources/kubernetes/kubeApi.ts';
import { kubeReason } from '../sources/kubernetes/kubeErrors.ts';

const DAY_MS = 86_400_000;
const LIFETIME_MS = 365 * DAY_MS;
/** Remaining validity from which on a certificate is replaced. */
const RENEWAL_MS = 120 * DAY_MS;
/** Time before now at which certificates begin, for clocks that are late. */
const BACKDATED_MS = 3_600_000;
/** Time between two reads of the Secret. */
const REFRESH_MS = 30_000;
/** Annotation with which cert-manager writes `caBundle`; it then writes the Secret too. */
const CERT_MANAGER = 'cert-manager.io/inject-ca-from';

/** Parts that certificates of admission webhooks are made with. */
export interface WebhookParts {
  readonly api: KubeApi;
  readonly leadership: Leadership;
  /** Of the Secret. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A ValidatingWebhookConfiguration (admissionregistration.k8s.io/v1), as far as it is used. */
interface WebhookConfiguration {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly webhooks: readonly [
    {
      readonly clientConfig: {
        readonly caBundle?: string;
        readonly url?: string;
        readonly service?: { readonly name: string; readonly namespace: string };
      };
    },
  ];
}

/** Data of the Secret. `ca.crt` also has the certificate before the present one, which other replicas may still serve. */
type SecretData = Readonly<Record<string, string>>;

/**
 * Follows the certificate of the admission webhook (docs/resources.md#the-admission-webhook). All replicas read it from a
 * Secret; unless cert-manager does, the leader creates and renews it for the hosts of the webhook's configuration, and writes `caBundle` there.
 * @param name of the Secret and the ValidatingWebhookConfiguration
 * @param use called with each new certificate and its key, as PEM
 * @returns ends it
 */
export function followWebhookCertificate(
  { api, leadership, namespace, clock, logger }: WebhookParts,
  name: string,
  use: (cert: string, key: string) => void,
): () => Promise<void> {
  const secretPath = kubePath('api', 'v1', 'namespaces', namespace, 'secrets', name);
  const configurations = ['apis', 'admissionregistration.k8s.io', 'v1', 'validatingwebhookconfigurations'];
  const path = kubePath(...configurations, name);
  let served = '';

  const patch = (at: string, contentType: string, body: object) =>
    api.send({ method: 'PATCH', path: at, contentType, body });
  const renew = async (host: string, before: SecretData): Promise<SecretData> => {
    const now = clock.now();
    const { certificate, key } = selfSignedCertificate(host, now - BACKDATED_MS, now + LIFETIME_MS);
    const ca = `${certificate}${before['tls.crt'] ?? ''}`;
    const data = { 'tls.crt': certificate, 'tls.key': key, 'ca.crt': ca };
    const encoded = Object.entries(data).map(([field, text]) => [field, base64(text)]);
    await patch(secretPath, PatchStrategy.MergePatch, { data: Object.fromEntries(encoded) });
    logger.info({ name, host }, 'webhook certificate created');
    return data;
  };
  /** Creates or renews the certificate if necessary, and has the configuration trust it. */
  const maintain = async (data: SecretData): Promise<SecretData> => {
    const call = { method: 'GET', path } as const;
    const { metadata, webhooks } = await api.send<WebhookConfiguration>(call);
    if (metadata.annotations?.[CERT_MANAGER] !== undefined) return data;
    const { url = '', service, caBundle } = webhooks[0].clientConfig;
    const host = service === undefined ? new URL(url).hostname : `${service.name}.${service.namespace}.svc`;
    const current = isUsable(data, host, clock.now()) ? data : await renew(host, data);
    const value = base64(current['ca.crt'] ?? '');
    const change = { op: 'add', path: '/webhooks/0/clientConfig/caBundle', value };
    if (caBundle !== value) await patch(path, PatchStrategy.JsonPatch, [change]);
    return current;
  };
  /** Never rejects. */
  const refresh = async (): Promise<void> => {
    try {
      const { data } = await api.readObject('Secret', namespace, name);
      const { 'tls.crt': cert = '', 'tls.key': key = '' } = leadership.isLeader ? await maintain(data) : data;
      if (cert !== served) use(cert, key);
      served = cert;
    } catch (error) {
      logger.warn({ name, reason: kubeReason(error) }, 'webhook certificate unavailable');
    }
  };
  let refreshed = refresh();
  const request = () => {
    refreshed = refreshed.then(refresh);
  };
  const timer = setInterval(request, REFRESH_MS);
  const ended = leadership.onChange(request);
  return () => {
    clearInterval(timer);
    ended();
    return refreshed;
  };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

function isUsable({ 'tls.crt': cert, 'ca.crt': ca }: SecretData, host: string, now: number): boolean {
  if (!cert || !ca?.startsWith(cert)) return false;
  const read = new X509Certificate(cert);
  return read.validToDate.getTime() - now > RENEWAL_MS && read.checkHost(host) !== undefined;
}
