package android.telephony;

public class TelephonyManager {
    public static final int SIM_STATE_ABSENT = 1;
    public static final int SIM_STATE_NETWORK_LOCKED = 4;
    public static final int SIM_STATE_PIN_REQUIRED = 2;
    public static final int SIM_STATE_PUK_REQUIRED = 3;

    TelephonyManager() {
        throw new RuntimeException("stub");
    }

    public int getSimState() {
        throw new RuntimeException("stub");
    }

    public boolean isDataEnabled() {
        throw new RuntimeException("stub");
    }
}
