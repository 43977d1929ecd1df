import { Autocomplete, Modal, Stack, Switch, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useState } from 'react';
import { mistakesOf } from '../../client/mistakes.ts';
import type { ClusterState } from '../../client/types.ts';
import { FormButtons } from '../../components/FormButtons.tsx';
import { WriteFailure } from '../../components/WriteFailure.tsx';
import { useSave } from './changes.ts';

interface ClusterFormProps {
  /** Null: a new one. */
  readonly cluster: ClusterState | null;
  /** Routing groups there are. */
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** Adding or changing a cluster; mistakes that the gateway finds are shown at their field. */
export function ClusterForm({ cluster, groups, onClose }: ClusterFormProps) {
  const isNew = cluster === null;
  const save = useSave();
  const [failure, setFailure] = useState<unknown>(null);
  const form = useForm({
    mode: 'uncontrolled',
    initialValues: {
      name: cluster?.name ?? '',
      routingGroup: cluster?.routingGroup ?? '',
      proxyTo: cluster?.proxyTo ?? '',
      // Shown empty where it only repeats the address.
      externalUrl: cluster === null || cluster.externalUrl === cluster.proxyTo ? '' : (cluster.externalUrl ?? ''),
      active: cluster?.active ?? true,
    },
    validate: {
      name: required('Enter a name.'),
      routingGroup: required('Enter a routing group.'),
      proxyTo: required('Enter the URL that requests are forwarded to.'),
    },
  });
  const store = async (values: typeof form.values, force: boolean) => {
    setFailure(null);
    const externalUrl = values.externalUrl.trim() === '' ? null : values.externalUrl.trim();
    try {
      await save.mutateAsync({ cluster: { ...values, proxyTo: values.proxyTo.trim(), externalUrl }, isNew, force });
      onClose();
    } catch (error) {
      const mistakes = mistakesOf(error, (field) => field in values);
      if (Object.keys(mistakes).length === 0) setFailure(error);
      else form.setErrors(mistakes);
    }
  };
  const title = isNew ? 'Add a backend' : `Edit ${cluster.name}`;
  return (
    <Modal opened onClose={onClose} title={title} size="lg">
      <form onSubmit={form.onSubmit((values) => void store(values, false))} noValidate>
        <Stack gap="sm">
          {failure !== null && (
            <WriteFailure error={failure} busy={save.isPending} onForce={() => void store(form.getValues(), true)} />
          )}
          <TextInput
            label="Name"
            required
            data-autofocus={isNew || undefined}
            readOnly={!isNew}
            description={isNew ? undefined : 'The name of a backend cannot be changed.'}
            key={form.key('name')}
            {...form.getInputProps('name')}
          />
          <Autocomplete
            label="Routing group"
            required
            data={[...groups]}
            data-autofocus={!isNew || undefined}
            key={form.key('routingGroup')}
            {...form.getInputProps('routingGroup')}
          />
          <TextInput
            label="URL"
            required
            description="Where requests are forwarded to"
            placeholder="http://engine.example:8080"
            key={form.key('proxyTo')}
            {...form.getInputProps('proxyTo')}
          />
          <TextInput
            label="External URL"
            description="The link for people, where it is another one"
            key={form.key('externalUrl')}
            {...form.getInputProps('externalUrl')}
          />
          <Switch
            label="Takes new queries"
            key={form.key('active')}
            {...form.getInputProps('active', { type: 'checkbox' })}
          />
          <FormButtons action={isNew ? 'Add' : 'Save'} busy={save.isPending} onCancel={onClose} />
        </Stack>
      </form>
    </Modal>
  );
}

const required = (message: string) => (value: string) => (value.trim() === '' ? message : null);
