"""Pairs of notes for the tests of changed facts, written before the code that recognises them.

The first group of each list was looked at while the rules were written. The second was held back: only the number of
right answers was counted, so that the rules are not made for single pairs. In the third group one word says what the
notes are about; the first half of it was looked at, and the second held back.
"""

from typing import NamedTuple


class Pair(NamedTuple):
    """An older and a newer note, and a question that both would answer."""

    language: str
    old: str
    new: str
    query: str


CHANGED = (
    Pair("en", "Maria lives in Porto.", "Maria moved to Lisbon in May.", "where does Maria live"),
    Pair(
        "en",
        "The staging server listens on port 8080.",
        "The staging server listens on port 9443.",
        "port of the staging server",
    ),
    Pair(
        "en",
        "Dentist appointment: 3 March at 14:00",
        "Dentist appointment is now 10 March at 9:30",
        "when is the dentist appointment",
    ),
    Pair(
        "en",
        "Carol is the owner of the billing service.",
        "Dave is the owner of the billing service.",
        "who owns the billing service",
    ),
    Pair(
        "en",
        "We use Jira for task tracking.",
        "We moved task tracking from Jira to Linear.",
        "what do we use for task tracking",
    ),
    Pair("en", "Peter eats fish and eggs.", "Peter no longer eats fish.", "does Peter eat fish"),
    Pair("en", "The garage door opener is broken.", "The garage door opener is repaired.", "garage door opener"),
    Pair(
        "en",
        "Wifi password of the cabin: blue-heron-42",
        "Wifi password of the cabin: green-otter-77",
        "wifi password of the cabin",
    ),
    Pair(
        "en",
        "Rent for the flat on Mill Road is 950 EUR a month.",
        "Rent for the flat on Mill Road is 1,020 EUR a month since July.",
        "how much is the rent for Mill Road",
    ),
    Pair(
        "en",
        "The release train leaves every Friday.",
        "The release train leaves every Tuesday.",
        "when does the release train leave",
    ),
    Pair(
        "de",
        "Der Zahnarzttermin von Jonas ist am 4. Mai.",
        "Der Zahnarzttermin von Jonas ist am 11. Mai.",
        "Wann ist der Zahnarzttermin von Jonas?",
    ),
    Pair(
        "de",
        "Anja arbeitet bei Siemens in München.",
        "Anja arbeitet jetzt bei Bosch in Stuttgart.",
        "Wo arbeitet Anja?",
    ),
    Pair(
        "fr",
        "Le code de la porte du bureau est 4471.",
        "Le code de la porte du bureau est 9035.",
        "code de la porte du bureau",
    ),
    Pair(
        "es",
        "La reunión del equipo es los lunes a las 10.",
        "La reunión del equipo es los jueves a las 12.",
        "¿cuándo es la reunión del equipo?",
    ),
    Pair("it", "Luca abita a Torino in via Garibaldi.", "Luca abita a Bologna in via Zamboni.", "dove abita Luca"),
    Pair("nl", "De fiets van Sanne is rood.", "De fiets van Sanne is blauw.", "welke kleur heeft de fiets van Sanne"),
    Pair(
        "ru",
        "Офис компании находится в Казани.",
        "Офис компании теперь находится в Самаре.",
        "где находится офис компании",
    ),
    Pair("zh", "李雷的手机号码是13800001111。", "李雷的手机号码是13922223333。", "李雷的手机号码"),
    Pair("ja", "田中さんの会社は東京駅の近くにある。", "田中さんの会社は横浜駅の近くにある。", "田中さんの会社はどこ"),
    Pair("ko", "주간 회의는 금요일 3시에 한다.", "주간 회의는 월요일 10시에 한다.", "주간 회의는 언제"),
    # Held back from here on.
    Pair("en", "Tom's manager is Priya Raman.", "Tom's manager is Elena Costa.", "who is Tom's manager"),
    Pair(
        "en",
        "The backup job runs at 02:00 every night.",
        "The backup job now runs at 04:30 every night.",
        "when does the backup job run",
    ),
    Pair(
        "en",
        "Grandma is allergic to penicillin.",
        "Grandma is not allergic to penicillin after all, says Dr Weiss.",
        "is grandma allergic to penicillin",
    ),
    Pair("en", "My favourite tea is Darjeeling.", "My favourite tea is Sencha these days.", "favourite tea"),
    Pair(
        "en",
        "The API rate limit is 100 requests a minute.",
        "The API rate limit is 250 requests a minute.",
        "API rate limit",
    ),
    Pair("en", "Project Heron is on hold.", "Project Heron is active again.", "status of project Heron"),
    Pair(
        "en",
        "Liam's birthday party takes place at the climbing hall.",
        "Liam's birthday party takes place at the swimming pool instead.",
        "where is Liam's birthday party",
    ),
    Pair(
        "en",
        "Production runs Postgres 14.",
        "Production runs Postgres 16 since the upgrade.",
        "which Postgres does production run",
    ),
    Pair(
        "en",
        "The car insurance is with Allianz.",
        "The car insurance is with HUK now, switched in January.",
        "who is the car insurance with",
    ),
    Pair(
        "en",
        "Nora takes the 7:15 bus to school.",
        "Nora takes the 7:40 bus to school.",
        "which bus does Nora take to school",
    ),
    Pair(
        "de",
        "Die Miete für die Garage beträgt 60 Euro.",
        "Die Miete für die Garage beträgt ab Juni 75 Euro.",
        "Wie hoch ist die Miete für die Garage?",
    ),
    Pair("de", "Der Drucker im Büro ist kaputt.", "Der Drucker im Büro ist repariert.", "Drucker im Büro"),
    Pair("fr", "Camille habite à Lyon.", "Camille habite maintenant à Nantes.", "où habite Camille"),
    Pair("es", "La clave del garaje es 2580.", "La clave del garaje es 1397.", "clave del garaje"),
    Pair(
        "pt",
        "O voo da Inês sai às 8h do terminal 1.",
        "O voo da Inês sai às 11h do terminal 2.",
        "quando sai o voo da Inês",
    ),
    Pair("sv", "Mötet med banken är på torsdag.", "Mötet med banken är på måndag.", "när är mötet med banken"),
    Pair(
        "pl", "Serwer testowy działa na porcie 5000.", "Serwer testowy działa na porcie 7000.", "port serwera testowego"
    ),
    Pair("zh", "我们团队的数据库用的是MySQL。", "我们团队的数据库改成PostgreSQL了。", "团队用什么数据库"),
    Pair("ja", "歯医者の予約は3月3日の14時。", "歯医者の予約は3月10日の9時に変更。", "歯医者の予約はいつ"),
    Pair("ko", "민수는 부산에 산다.", "민수는 이제 대구에 산다.", "민수는 어디에 사나"),
    # One word is the subject from here on.
    Pair("en", "The office is on the third floor.", "The office is on the fifth floor.", "where is the office"),
    Pair("en", "My dentist is Dr Weber.", "My dentist is Dr Klein.", "who is my dentist"),
    Pair("en", "The deadline is the end of May.", "The deadline is the end of June.", "when is the deadline"),
    Pair("en", "My car is a Volvo.", "My car is a Skoda.", "which car do I have"),
    Pair("en", "The spare key is under the mat.", "The spare key is in the shed.", "where is the spare key"),
    Pair("en", "Our landlord is Mr Petrov.", "Our landlord is Mrs Adeyemi.", "who is our landlord"),
    Pair("de", "Mein Zahnarzt ist Dr. Weber.", "Mein Zahnarzt ist Dr. Klein.", "Wer ist mein Zahnarzt?"),
    Pair("de", "Das Büro ist im dritten Stock.", "Das Büro ist im fünften Stock.", "Wo ist das Büro?"),
    Pair("zh", "我的牙医是王医生。", "我的牙医是陈医生。", "我的牙医是谁"),
    Pair("ja", "事務所は三階です。", "事務所は五階です。", "事務所は何階"),
    # Held back from here on.
    Pair("en", "The printer is in the basement.", "The printer is in the library.", "where is the printer"),
    Pair("en", "My password is swordfish.", "My password is marigold.", "what is my password"),
    Pair("en", "The standup is at a quarter past nine.", "The standup is at half past ten.", "when is the standup"),
    Pair("en", "Our accountant is Ms Duarte.", "Our accountant is Mr Lindqvist.", "who is our accountant"),
    Pair("de", "Unsere Lehrerin ist Frau Sommer.", "Unsere Lehrerin ist Frau Winter.", "Wer ist unsere Lehrerin?"),
    Pair("fr", "Mon médecin est le Dr Morel.", "Mon médecin est le Dr Girard.", "qui est mon médecin"),
    Pair("es", "La oficina está en el segundo piso.", "La oficina está en el cuarto piso.", "dónde está la oficina"),
    Pair("zh", "会议室在二楼。", "会议室在六楼。", "会议室在哪里"),
    Pair("ja", "担当者は佐藤さんです。", "担当者は高橋さんです。", "担当者は誰"),
    Pair("ko", "사무실은 삼층에 있다.", "사무실은 오층에 있다.", "사무실은 어디에 있나"),
)

#: Pairs that differ and say nothing against each other.
NOT_CHANGED = (
    ("Anna's phone is 555-0101.", "Ben's phone is 555-0102."),
    ("Anna likes tea.", "Ben likes tea."),
    ("Invoice 1041: 300 EUR", "Invoice 1042: 450 EUR"),
    ("Invoice 1041 is paid.", "Invoice 1042 is paid."),
    ("Bus 12 leaves from the main station.", "Bus 14 leaves from the main station."),
    ("Project Apollo phase 1", "Project Apollo phase 2"),
    ("Maria lives in Lisbon.", "Maria lives in Lisbon near the river."),
    ("We use Postgres for billing.", "We use Redis for caching."),
    ("The garage door opener is broken.", "The garage door opener was expensive."),
    ("Anna sold the old boat.", "Anna painted the old boat."),
    ("- [ ] call the bank", "- [x] call the bank"),
    ("Server a1 has 32 GB of memory.", "Server b2 has 64 GB of memory."),
    ("Decided to keep the monorepo.", "Decided to hire a designer."),
    ("Coffee costs 3 EUR.", "Tea costs 2 EUR."),
    ("Room 5 has 20 chairs.", "Room 6 has 30 chairs."),
    ("Die Nummer von Paul ist 1234.", "Die Nummer von Petra ist 5678."),
    ("Le bureau de Paris ouvre à 9h.", "Le bureau de Lyon ouvre à 8h."),
    ("安娜的电话是13800001111。", "本杰明的电话是13922223333。"),
    ("田中さんの誕生日は5月2日。", "鈴木さんの誕生日は8月9日。"),
    ("민수 전화번호는 1234이다.", "지영 전화번호는 5678이다."),
    # Held back from here on.
    ("The kitchen lamp has two bulbs.", "The hall lamp has three bulbs."),
    ("Flight LH123 departs from gate A4.", "Flight LH456 departs from gate B7."),
    ("Paid the plumber.", "Called the plumber."),
    ("Chapter 3 of the thesis is finished.", "Chapter 4 of the thesis is finished."),
    ("Sam visited Rome.", "Sam visited Rome with Julia."),
    ("Review of pull request 211: approved", "Review of pull request 214: changes requested"),
    ("Email of Lena: lena@example.org", "Email of Omar: omar@example.org"),
    ("Monday: gym with Alex", "Tuesday: gym with Alex"),
    ("The frontend is written in TypeScript.", "The backend is written in Go."),
    ("Fixed the login bug in the mobile app.", "Fixed the crash in the mobile app."),
    ("Blood pressure of dad is 130/85.", "Blood pressure of mum is 118/76."),
    ("Der Hund heißt Bello.", "Die Katze heißt Minka."),
    ("El cumpleaños de Ana es el 3 de mayo.", "El cumpleaños de Luis es el 9 de junio."),
    ("La batterie du vélo est chargée.", "La batterie du vélo est chez le réparateur."),
    ("Il treno per Milano parte alle 8.", "Il treno per Roma parte alle 9."),
    ("北京办公室在三楼。", "上海办公室在五楼。"),
    ("大阪の会議室は10人用。", "名古屋の会議室は6人用。"),
    ("서울 사무실은 3층이다.", "부산 사무실은 5층이다."),
    ("Read 20 pages of Dune.", "Read 30 pages of Emma."),
    ("The API returns JSON.", "The API returns JSON with a version field."),
    # One word is what both share from here on.
    ("The concert on Friday is at the town hall.", "The concert on Sunday is at the church."),
    ("My brother is Tom.", "My brother is Felix."),
    ("Dr Weber is the dentist of Anna.", "Dr Weber is the landlord of Ben."),
    ("The studio is on the third floor.", "The studio is very quiet."),
    ("The gallery is in Berlin.", "The gallery is on the fifth floor."),
    ("Anna Weber is a dentist.", "Paul Weber is a teacher."),
    ("The meeting was on Monday.", "The meeting was on Thursday."),
    ("Mein Bruder ist Jonas.", "Mein Bruder ist Lukas."),
    ("我的同事是王明。", "我的同事是李华。"),
    ("会議は楽しかった。", "会議は長かった。"),
    # Held back from here on.
    ("The bug is in the parser.", "The bug is in the renderer."),
    ("My friend is Carla.", "My friend is Dmitri."),
    ("Lunch was at the Greek place.", "Lunch was at the office."),
    ("The second chapter is about ships.", "The third chapter is about harbours."),
    ("Dr Klein called on Tuesday.", "Dr Weber called on Friday."),
    ("The car is a Volvo.", "The car is in the garage."),
    ("Das Konzert am Freitag ist in der Kirche.", "Das Konzert am Samstag ist im Park."),
    ("Le train de Lyon est au troisième quai.", "Le train de Nice est au cinquième quai."),
    ("小王是医生。", "小李是医生。"),
    ("兄は東京にいる。", "妹は大阪にいる。"),
)
GROUP = 20
