import { Alert, Autocomplete, Modal, Stack, Switch, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useState } from 'react';
import { ApiError } from '../../client/apiError.ts';
import { mistakesOf } from '../../client/mistakes.ts';
import type { ClusterState } from '../../client/types.ts';
import { FormButtons } from '../../components/FormButtons.tsx';
import { isSame, useFormGuard } from '../../components/leaveGuard.ts';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { WriteFailure } from '../../components/WriteFailure.tsx';
import { DeletedMeanwhile, useSave } from './changes.ts';

interface ClusterFormProps {
  /** Null: a new cluster. */
  readonly cluster: ClusterState | null;
  readonly isDeleted: boolean;
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** Form to add or change a cluster; mistakes that the gateway finds are shown at their field. */
export function ClusterForm({ cluster, isDeleted: isGone, groups, onClose }: ClusterFormProps) {
  useReturnFocus();
  const isNew = cluster === null;
  const save = useSave();
  // A save asks before the page knows the current state.
  const [wasMissed, setMissed] = useState(false);
  const isDeleted = isGone || wasMissed;
  const [failure, setFailure] = useState<unknown>(null);
  // The state when the form was opened: changes by others are not edits.
  const [initialValues] = useState({
    name: cluster?.name ?? '',
    routingGroup: cluster?.routingGroup ?? '',
    proxyTo: cluster?.proxyTo ?? '',
    // Empty if it only repeats the address.
    externalUrl: cluster === null || cluster.externalUrl === cluster.proxyTo ? '' : (cluster.externalUrl ?? ''),
    active: cluster?.active ?? true,
  });
  const [isDirty, setDirty] = useState(false);
  const { leave, close } = useFormGuard(isDirty, onClose);
  const form = useForm({
    mode: 'uncontrolled',
    initialValues,
    onValuesChange: (values) => setDirty(!isSame(values, initialValues)),
    validate: {
      name: required('Enter a name.'),
      routingGroup: required('Enter a routing group.'),
      proxyTo: required('Enter the URL that requests are forwarded to.'),
    },
  });
  const store = async (values: typeof form.values, force: boolean) => {
    setFailure(null);
    const externalUrl = values.externalUrl.trim() === '' ? null : values.externalUrl.trim();
    const written = { ...values, proxyTo: values.proxyTo.trim(), externalUrl };
    try {
      await save.mutateAsync({ cluster: written, isNew: isNew || isDeleted, force });
      close();
    } catch (error) {
      if (error instanceof DeletedMeanwhile) return setMissed(true);
      // Another user added it meanwhile.
      if (error instanceof ApiError && error.code === 'EG_CONFLICT') setMissed(false);
      const mistakes = mistakesOf(error, (field) => field in values);
      if (Object.keys(mistakes).length === 0) setFailure(error);
      else form.setErrors(mistakes);
    }
  };
  const title = isNew ? 'Add a backend' : `Edit ${cluster.name}`;
  return (
    <Modal opened onClose={leave} title={title} size="lg">
      <form onSubmit={form.onSubmit((values) => void store(values, false))} noValidate>
        <Stack gap="sm">
          {failure !== null && (
            <WriteFailure error={failure} busy={save.isPending} onForce={() => void store(form.getValues(), true)} />
          )}
          {isDeleted && (
            <Alert
              role="alert"
              color="yellow"
              title={`${cluster?.name} was deleted meanwhile`}
              icon={<IconAlertTriangle aria-hidden />}
            >
              Nothing was stored. Cancel, or add it again as it stands here.
            </Alert>
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
            // The field has the focus when the form opens: the options would cover the fields below.
            openOnFocus={false}
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
          <FormButtons
            action={isNew ? 'Add' : isDeleted ? 'Add it again' : 'Save'}
            busy={save.isPending}
            onCancel={leave}
          />
        </Stack>
      </form>
    </Modal>
  );
}

const required = (message: string) => (value: string) => (value.trim() === '' ? message : null);
