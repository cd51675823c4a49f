number = Dit nummer, der ender på { $tail }
not-your-number = Ikke dit nummer?
sandbox = Testtilstand: kun simulerede telefonnumre
time-left = Tid tilbage:
support = Har du brug for hjælp?
language = Sprog

## Silent check by the mobile operator

start-title = Bekræft dit telefonnummer
start-text = { $brand } vil gerne bekræfte, at denne telefon har dit nummer. Slå mobildata til og wi-fi fra, og fortsæt derefter.
start-button = Bekræft denne telefon
start-computer-text = { $brand } vil gerne bekræfte dit telefonnummer. Fortsæt på den telefon, der har nummeret:
scan-camera = Ret telefonens kamera mod koden.
start-open = Åbn linket, der vises.
start-follow = Følg trinnene der. Denne side opdateres automatisk.
start-here = Fortsæt på denne enhed
start-scan-label = QR-kode til denne side
wallet-text = { $brand } vil bekræfte, at denne telefon har dit nummer. Tryk på knappen, og giv dit samtykke på næste skærm. Wi-Fi kan forblive slået til.
wallet-button = Bekræft med telefonen
wallet-again = Tryk på knappen igen for at fortsætte.
silent-title = Dit nummer bliver bekræftet
silent-text = Dit mobilselskab bekræfter dit nummer. Det tager kun få sekunder.
continue = Fortsæt
other-way = Prøv på en anden måde
stalled-title = Intet svar endnu
stalled-text = Dit mobilselskab har ikke svaret. Prøv igen, eller vælg en anden måde.
confirming-title = Næsten færdig
confirming-text = Dit mobilselskab har svaret. { $brand } er ved at afslutte kontrollen.
confirming-own-text = Dit mobilselskab har svaret. Kun ét trin mere, så er du færdig.
confirming-elsewhere = Afslut der, hvor du startede. Denne side opdateres automatisk.
stalled-only-text = Dit mobilselskab har ikke svaret. Kontrollér, at mobildata er slået til, og prøv igen.
ask-whether-to-stop-title = Vil du stoppe her?
ask-whether-to-stop-text = Der er ingen anden måde at bekræfte dit nummer på.
elsewhere-title = Fortsæt på din telefon
elsewhere-text = Dit nummer bliver bekræftet på din telefon eller i en anden browser. Denne side opdateres automatisk.
allow-cookies = Dette trin kræver en cookie, som din browser har blokeret. Tillad cookies for denne side, og prøv igen.

## Text message from the user to us

text-title = Send os en sms
text-text = Send beskeden nedenfor uændret fra den telefon, du vil bekræfte. Dit mobilselskabs almindelige sms-takst gælder.
text-warning = Send kun denne sms, hvis du selv har sat bekræftelsen i gang.
text-computer-text = Send os en sms fra den telefon, du vil bekræfte. Dit mobilselskabs almindelige sms-takst gælder.
text-open = Åbn beskeden, der vises.
text-send = Send den uændret.
text-by-hand = Eller skriv selv beskeden
text-button = Åbn beskedappen
text-scan-label = QR-kode med sms’en
text-receiver = Til
text-body = Besked
copy-receiver = Kopiér nummer
copy-body = Kopiér besked
copied = Kopieret
copy-failed = Din browser blokerede kopieringen. Teksten er markeret: Kopiér den selv.
text-waiting = Venter på din besked …
text-cannot = Jeg kan ikke sende en sms
other-sender-title = Send fra det andet SIM-kort
other-sender-text = Sms’en kom fra et andet nummer. Send den igen med det SIM-kort, hvis nummer ender på { $tail }.
received-title = Vi har modtaget en besked
received-text = Vi kontrollerer den. Hvis der ikke sker noget inden for få sekunder, så send beskeden nedenfor igen, helt uændret.
ask-whether-to-give-up-title = Kan du ikke sende en sms?
ask-whether-to-give-up-text = Uden den kan vi ikke bekræfte dit nummer.
ask-whether-to-give-up-yes = Stop uden at bekræfte
ask-if-wrong-number-title = Ikke dit nummer?
ask-if-wrong-number-text = { $brand } vil gerne bekræfte nummeret, der ender på { $tail }. Hvis det ikke er dit, så stop her.
ask-if-wrong-number-yes = Det er ikke mit nummer
ask-no = Gå tilbage

## SIM Swap check

sim-title = Endnu en kontrol
sim-text = Vi spørger dit mobilselskab, om dit SIM-kort er blevet skiftet for nylig.

## Results

done-title = Nummeret er bekræftet
done-text = Tak. Dit telefonnummer er bekræftet.
mismatch-title = Nummeret er ikke bekræftet
mismatch-phone-text = Denne telefon har et andet nummer. Kontrollér det nummer, du har oplyst til { $brand }, og prøv igen.
mismatch-text = Nummeret, der svarede, er ikke det, du har oplyst til { $brand }. Kontrollér nummeret, og prøv igen.
failed-title = Vi kunne ikke bekræfte dit nummer
failed-text = Ingen af måderne at bekræfte det på virkede. Gå tilbage til { $brand } for at prøve igen.
given-up-title = Nummeret er ikke bekræftet
given-up-text = Du stoppede, før vi kunne bekræfte dit nummer. Gå tilbage til { $brand } for at prøve igen.
wrong-number-title = Tak, fordi du sagde til
wrong-number-text = Intet er blevet bekræftet. Gå tilbage til { $brand } for at indtaste dit nummer.
cancelled-title = Ikke længere nødvendigt
cancelled-text = { $brand } har annulleret denne bekræftelse.
expired-title = Dette link er udløbet
expired-text = Dit nummer blev ikke bekræftet i tide. Gå tilbage til { $brand } for at starte forfra.
return-link = Tilbage til { $brand }
close = Du kan lukke denne side nu.

## Errors

unknown-title = Dette link er ugyldigt
unknown-text = Kontrollér, at du har åbnet hele linket, eller start forfra på den hjemmeside, der sendte dig hertil.
busy-title = For mange forsøg
busy-text = Vent et minut, og prøv igen.
unavailable-title = Noget gik galt
unavailable-text = Denne side er ikke tilgængelig lige nu. Prøv igen om et minut.
refused-title = Åbn siden igen
refused-text = Af hensyn til din sikkerhed kan du kun fortsætte fra denne side.
retry = Prøv igen

## Page of a single check, whose link was opened in a browser

enter-code-text = Indtast denne kode i den app eller på den hjemmeside, der sendte dig hertil. Den virker én gang og udløber snart.
device-failed-text = Dit mobilselskab kunne ikke bekræfte dit nummer. Gå tilbage til den app eller hjemmeside, der sendte dig hertil, for at prøve på en anden måde.
not-mobile-title = Denne telefon bruger ikke mobildata
not-mobile-text = Vi kan kun bekræfte dit nummer via mobildata. Slå wi-fi fra, gå tilbage til den app eller hjemmeside, der sendte dig hertil, og prøv igen.
used-title = Dette link er allerede brugt
other-browser-title = Startet i en anden browser
other-browser-text = Intet er blevet bekræftet. Hvis du selv har sat bekræftelsen i gang, så gå tilbage til den browser, du startede i. Ellers kan du lukke denne side.
start-again-text = Gå tilbage til den app eller hjemmeside, der sendte dig hertil, for at starte forfra.
other-browser-cookies = Hvis du stadig er i den browser, så tillad cookies, og start forfra.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Log ind på { $brand }
sign-in-text = Indtast dit mobilnummer. Derefter kontrollerer vi, at det er dit.
sign-in-country = Land eller område
sign-in-choose-country = Vælg …
sign-in-number = Mobilnummer
sign-in-hint = Med eller uden landekode
sign-in-sandbox-hint = Brug et simuleret nummer, for eksempel { $example }
sign-in-privacy = Vi bruger kun dit nummer til at logge dig ind på { $brand }.
sign-in-discover = Brug denne telefons nummer
sign-in-cancel = Annuller
sign-in-enter-number = Indtast dit nummer i stedet
sign-in-stalled-text = Dit mobilselskab har ikke svaret. Prøv igen, eller indtast dit nummer.
sign-in-invalid = Det ligner ikke et telefonnummer. Kontrollér det, og prøv igen.
sign-in-not-supported = Vi kan ikke bekræfte dette nummer. Prøv et andet mobilnummer.
sign-in-too-many-attempts = For mange forsøg med dette nummer. Prøv igen senere, eller brug et andet nummer.
sign-in-try-later = Vi kan ikke kontrollere numre lige nu. Prøv igen om et minut.
sign-in-missing-country = Vælg dit land, eller begynd nummeret med + og landekoden.
sign-in-ended-title = Fortsæt, hvor du begyndte
sign-in-ended-text = Du skal ikke gøre mere her. Gå tilbage til den browser, hvor du begyndte at logge ind.
sign-in-cancelled-title = Login annulleret
sign-in-cancelled-text = Du er ikke logget ind. Gå tilbage til { $brand } for at prøve igen.
sign-in-expired-title = Det tog for lang tid
sign-in-expired-text = Af hensyn til din sikkerhed skal du begynde forfra. Gå tilbage til { $brand }.
sign-in-failed-text = Vi kunne ikke logge dig ind. Gå tilbage til { $brand } for at prøve igen.
sign-in-refused-title = Vi kan ikke logge dig ind
sign-in-refused-text = Den app eller side, du kom fra, sendte en ugyldig anmodning. Gå tilbage og prøv igen, eller bed dens support om hjælp.
sign-in-detail = Oplysninger til udviklere
