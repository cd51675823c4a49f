number = Vaše číslo končící na { $tail }
not-your-number = Není to vaše číslo?
sandbox = Testovací režim: pouze simulovaná telefonní čísla
time-left = Zbývá:
support = Potřebujete pomoc?
language = Jazyk

## Silent check by the mobile operator

start-title = Ověřte své telefonní číslo
start-text = Společnost { $brand } chce ověřit, že tento telefon používá vaše číslo. Zapněte mobilní data, vypněte Wi-Fi a pokračujte.
start-button = Ověřit tento telefon
start-computer-text = Společnost { $brand } chce ověřit vaše telefonní číslo. Pokračujte v telefonu s tímto číslem:
scan-camera = Namiřte fotoaparát telefonu na kód.
start-open = Otevřete odkaz, který se zobrazí.
start-follow = Postupujte podle pokynů. Tato stránka se aktualizuje sama.
start-here = Pokračovat na tomto zařízení
start-scan-label = QR kód s odkazem na tuto stránku
wallet-text = { $brand } chce ověřit, že tento telefon má vaše číslo. Klepněte na tlačítko a na další obrazovce souhlaste. Wi-Fi může zůstat zapnutá.
wallet-button = Ověřit tímto telefonem
wallet-again = Pokračujte dalším klepnutím na tlačítko.
silent-title = Ověřujeme vaše číslo
silent-text = Váš mobilní operátor ověřuje vaše číslo. Potrvá to jen několik sekund.
continue = Pokračovat
other-way = Zkusit jiný způsob
stalled-title = Zatím bez odpovědi
stalled-text = Váš mobilní operátor neodpověděl. Zkuste to znovu, nebo zvolte jiný způsob.
confirming-title = Téměř hotovo
confirming-text = Váš mobilní operátor odpověděl. Společnost { $brand } dokončuje kontrolu.
confirming-own-text = Váš mobilní operátor odpověděl. Zbývá už jen jeden krok.
confirming-elsewhere = Dokončete ověření tam, kde jste začali. Tato stránka se aktualizuje sama.
stalled-only-text = Váš mobilní operátor neodpověděl. Zkontrolujte, zda máte zapnutá mobilní data, a zkuste to znovu.
ask-whether-to-stop-title = Ukončit ověření?
ask-whether-to-stop-text = Jiný způsob, jak vaše číslo ověřit, není k dispozici.
elsewhere-title = Pokračujte v telefonu
elsewhere-text = Vaše číslo se ověřuje v telefonu nebo v jiném prohlížeči. Tato stránka se aktualizuje sama.
allow-cookies = Tento krok vyžaduje soubor cookie, který váš prohlížeč zablokoval. Povolte pro tuto stránku soubory cookie a zkuste to znovu.

## Text message from the user to us

text-title = Pošlete nám SMS
text-text = Pošlete zprávu uvedenou níže beze změn z telefonu, který ověřujete. Platí běžná cena SMS vašeho operátora.
text-warning = Tuto SMS pošlete, jen pokud jste ověření zahájili vy.
text-computer-text = Pošlete nám SMS z telefonu, který ověřujete. Platí běžná cena SMS vašeho operátora.
text-open = Otevřete zprávu, která se zobrazí.
text-send = Pošlete ji beze změn.
text-by-hand = Nebo zprávu napište ručně
text-button = Otevřít Zprávy
text-scan-label = QR kód s SMS
text-receiver = Komu
text-body = Zpráva
copy-receiver = Kopírovat číslo
copy-body = Kopírovat zprávu
copied = Zkopírováno
copy-failed = Prohlížeč zablokoval kopírování. Text je označený, zkopírujte ho ručně.
text-waiting = Čekáme na vaši zprávu…
text-cannot = Nemohu poslat SMS
other-sender-title = Pošlete ji z druhé SIM karty
other-sender-text = Tato SMS přišla z jiného čísla. Pošlete ji znovu ze SIM karty, jejíž číslo končí na { $tail }.
received-title = Dostali jsme zprávu
received-text = Kontrolujeme ji. Pokud se během několika sekund nic nestane, pošlete zprávu uvedenou níže znovu přesně tak, jak je.
ask-whether-to-give-up-title = Nemůžete poslat SMS?
ask-whether-to-give-up-text = Bez ní nemůžeme vaše číslo ověřit.
ask-whether-to-give-up-yes = Ukončit bez ověření
ask-if-wrong-number-title = Není to vaše číslo?
ask-if-wrong-number-text = Společnost { $brand } chce ověřit číslo končící na { $tail }. Pokud není vaše, ukončete ověření.
ask-if-wrong-number-yes = Toto není moje číslo
ask-no = Zpět

## SIM Swap check

sim-title = Ještě jedna kontrola
sim-text = Zjišťujeme u vašeho mobilního operátora, zda vaše SIM karta nebyla nedávno vyměněna.

## Results

done-title = Číslo je ověřeno
done-text = Děkujeme. Vaše telefonní číslo je ověřeno.
mismatch-title = Číslo nebylo ověřeno
mismatch-phone-text = Tento telefon má jiné číslo. Zkontrolujte číslo, které jste poskytli společnosti { $brand }, a zkuste to znovu.
mismatch-text = Odpověď přišla z jiného čísla, než které jste poskytli společnosti { $brand }. Zkontrolujte číslo a zkuste to znovu.
failed-title = Vaše číslo se nepodařilo ověřit
failed-text = Žádný způsob ověření nebyl úspěšný. Vraťte se do služby { $brand } a zkuste to znovu.
given-up-title = Číslo nebylo ověřeno
given-up-text = Ověření čísla jste předčasně ukončili. Vraťte se do služby { $brand } a zkuste to znovu.
wrong-number-title = Děkujeme za upozornění
wrong-number-text = Nic nebylo ověřeno. Vraťte se do služby { $brand } a zadejte své číslo.
cancelled-title = Ověření už není potřeba
cancelled-text = Společnost { $brand } toto ověření zrušila.
expired-title = Platnost odkazu vypršela
expired-text = Vaše číslo nebylo ověřeno včas. Vraťte se do služby { $brand } a začněte znovu.
return-link = Zpět do služby { $brand }
close = Tuto stránku teď můžete zavřít.

## Errors

unknown-title = Tento odkaz není platný
unknown-text = Zkontrolujte, zda jste otevřeli celý odkaz, nebo začněte znovu na webu, odkud jste sem přišli.
busy-title = Příliš mnoho pokusů
busy-text = Počkejte minutu a zkuste to znovu.
unavailable-title = Něco se pokazilo
unavailable-text = Tato stránka teď není dostupná. Zkuste to znovu za minutu.
refused-title = Otevřete stránku znovu
refused-text = Z bezpečnostních důvodů můžete pokračovat jen z této stránky.
retry = Zkusit znovu

## Page of a single check, whose link was opened in a browser

enter-code-text = Zadejte tento kód v aplikaci nebo na webu, odkud jste sem přišli. Lze ho použít jen jednou a jeho platnost brzy vyprší.
device-failed-text = Váš mobilní operátor nemohl vaše číslo ověřit. Vraťte se do aplikace nebo na web, odkud jste sem přišli, a zkuste jiný způsob.
not-mobile-title = Tento telefon nepoužívá mobilní data
not-mobile-text = Vaše číslo můžeme ověřit jen přes mobilní data. Vypněte Wi-Fi, vraťte se do aplikace nebo na web, odkud jste sem přišli, a zkuste to znovu.
used-title = Tento odkaz už byl použit
other-browser-title = Zahájeno v jiném prohlížeči
other-browser-text = Nic nebylo ověřeno. Pokud jste ověření zahájili vy, vraťte se do prohlížeče, ve kterém jste začali. Jinak můžete tuto stránku zavřít.
start-again-text = Vraťte se do aplikace nebo na web, odkud jste sem přišli, a začněte znovu.
other-browser-cookies = Pokud jste stále ve stejném prohlížeči, povolte soubory cookie a začněte znovu.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Přihlášení do služby { $brand }
sign-in-text = Zadejte číslo mobilního telefonu. Potom ověříme, že je vaše.
sign-in-country = Země nebo oblast
sign-in-choose-country = Vyberte…
sign-in-number = Číslo mobilního telefonu
sign-in-hint = S předvolbou země nebo bez ní
sign-in-sandbox-hint = Použijte simulované číslo, například { $example }
sign-in-privacy = Vaše číslo použijeme jen k přihlášení do služby { $brand }.
sign-in-discover = Použít tento telefon
sign-in-cancel = Zrušit
sign-in-enter-number = Raději zadat číslo
sign-in-stalled-text = Váš operátor neodpověděl. Zkuste to znovu, nebo zadejte své číslo.
sign-in-invalid = Tohle nevypadá jako telefonní číslo. Zkontrolujte ho a zkuste to znovu.
sign-in-not-supported = Toto číslo nemůžeme potvrdit. Zkuste jiné mobilní číslo.
sign-in-too-many-attempts = Příliš mnoho pokusů s tímto číslem. Zkuste to později, nebo použijte jiné číslo.
sign-in-try-later = Čísla teď nemůžeme ověřovat. Zkuste to znovu za minutu.
sign-in-missing-country = Vyberte zemi, nebo začněte číslo znakem + a předvolbou země.
sign-in-ended-title = Pokračujte tam, kde jste začali
sign-in-ended-text = Tady už není co dělat. Vraťte se do prohlížeče, ve kterém jste se začali přihlašovat.
sign-in-cancelled-title = Přihlášení zrušeno
sign-in-cancelled-text = Nejste přihlášeni. Vraťte se do služby { $brand } a zkuste to znovu.
sign-in-expired-title = Trvalo to příliš dlouho
sign-in-expired-text = Kvůli vaší bezpečnosti je třeba začít znovu. Vraťte se do služby { $brand }.
sign-in-failed-text = Přihlášení se nezdařilo. Vraťte se do služby { $brand } a zkuste to znovu.
sign-in-refused-title = Nemůžeme vás přihlásit
sign-in-refused-text = Aplikace nebo web, odkud přicházíte, odeslaly neplatný požadavek. Vraťte se a zkuste to znovu, nebo požádejte o pomoc jejich podporu.
sign-in-detail = Podrobnosti pro vývojáře
