// Verifies a number with the client of openapi-generator's `typescript-fetch`.

import { ChainEndFromJSON, Configuration, OAuthApi, ProblemFromJSON, ProjectsApi, ResponseError, VerificationsApi } from './index';

const setting = (name: string): string => process.env[name] ?? '';
const basePath = setting('BASE_URL');

/** Returns a configuration with a token. */
async function authorize(scope: 'verification' | 'management', prefix = ''): Promise<Configuration> {
    const login = new Configuration({ basePath, username: setting(`${prefix}CLIENT_ID`), password: setting(`${prefix}CLIENT_SECRET`) });
    const token = await new OAuthApi(login).createToken({ grantType: 'client_credentials', scope });
    // The value of the header.
    return new Configuration({ basePath, accessToken: `Bearer ${token.accessToken}` });
}

async function verify(): Promise<void> {
    const verifications = new VerificationsApi(await authorize('verification'));
    const created = await verifications.createVerification({
        verificationInput: { phoneNumber: setting('PHONE_NUMBER'), methods: ['secure_sna', 'reverse_sms'] },
    });
    const step = created.nextStep;
    if (step.method !== 'secure_sna') throw new Error(`the first step is ${step.method}`);
    const end = ChainEndFromJSON(await (await fetch(step.url)).json());
    const verified = await verifications.redeemVerificationCode({
        verificationId: created.verificationId,
        secureSnaRedemption: { code: end.code ?? '' },
    });
    if (verified.steps[0]?.method !== 'secure_sna') throw new Error('the verification has another step');

    let problem;
    try {
        await verifications.getVerification({ verificationId: crypto.randomUUID() });
    } catch (error) {
        if (!(error instanceof ResponseError)) throw error;
        problem = ProblemFromJSON(await error.response.json());
    }

    const project = await new ProjectsApi(await authorize('management', 'WORKSPACE_')).updateProject({
        workspaceId: setting('WORKSPACE_ID'),
        projectId: setting('PROJECT_ID'),
        projectPatch: { _configuration: { reverseSms: { ttl: 120 }, verification: null } },
    });
    console.log(
        JSON.stringify({
            next_step: step.method,
            status: verified.status,
            match: verified.match,
            method: verified.method,
            error_code: problem?.errorCode,
            ttl: project._configuration.reverseSms.ttl,
        }),
    );
}

void verify();
